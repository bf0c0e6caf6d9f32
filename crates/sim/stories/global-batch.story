# One run on each node: a node joins, one is drained before its run is done, one after, one fails.
nodes 3 cpu=4 mem=8g
run 2s
service scan global-batch does=exit,0,10s
run 5s
drain node-1
run 20s
show tasks scan
nodes 4
run 2s
drain node-2
run 15s
show tasks scan
activate node-1
activate node-2
run 15s
converge 60s
show tasks scan
crash node-4
run 30s
boot node-4
update scan version=2
run 15s
converge 60s
show tasks scan
show services
why scan
