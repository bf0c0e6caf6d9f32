# A drain that waits for room for ever: after ten minutes the cluster evens out what the drain does not move.
nodes 2 cpu=4 mem=8g
label node-1 zone=a; label node-2 zone=a
run 2s
service full replicas=2 cpu=3 min-healthy=100% constraint=node.labels.zone==a
service web replicas=6
cluster rebalance=2
converge 30s
drain node-1
run 10s
nodes 4 cpu=4 mem=8g
run 5m
show nodes
run 7m
show nodes
show tasks web
show tasks full
why web
