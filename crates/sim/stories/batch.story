# A job of six runs, two at a time: one that fails is tried again, another spec is another iteration, and a slot that keeps failing is given up.
nodes 2 cpu=4 mem=8g
run 2s
service sums completions=6 concurrency=2 does=exit,0,10s delay=3s attempts=1
run 4s
show tasks sums
end sums.2 1
run 2s
show tasks sums
run 40s
converge 30s
show services
# A node is drained: what it ran is run on the other one, and is no attempt. Then the whole job again.
update sums version=2
run 3s
drain node-2
run 5s
show tasks sums
run 90s
converge 30s
activate node-2
update sums version=3 does=exit,4,1s
run 60s
converge 30s
show services
show tasks sums
why sums
# More runs and more at once; then fewer.
update sums version=4 does=exit,0,30s completions=8 concurrency=4
run 5s
show services
scale sums 3
run 5s
show tasks sums
run 60s
converge 30s
show services
