# Machines that come later stay empty, until the cluster evens itself out: one task of a service after the other, none missing meanwhile.
nodes 2 cpu=4 mem=8g
run 2s
service web replicas=6
service api replicas=4
converge 30s
nodes 4 cpu=4 mem=8g
run 30s
show nodes
cluster rebalance=2
run 70s
show tasks web
converge 120s
run 2m
show nodes
show tasks web
why web
