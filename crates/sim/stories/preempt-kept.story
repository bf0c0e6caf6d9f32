# A reason that was found before room was kept for the task ahead is not the one that holds once it is.
managers 1
nodes 1 cpu=4 mem=8589934592
service s1 completions=2 cpu=2.5 does=stubborn preempt
run 1s
update s1 version=2
run 1s
show tasks
