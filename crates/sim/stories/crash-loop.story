# A program that always fails is started again three times, each time after a delay, and then no more.
nodes 2 cpu=4 mem=8g
run 2s
service loop replicas=1 does=exit,7,1s attempts=3 delay=2s condition=on-failure
run 4s
show tasks
converge 60s
run 20s
show tasks
why loop
# A new revision begins anew.
update loop does=run
converge 30s
show tasks
