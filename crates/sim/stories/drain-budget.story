# A drained node gives its tasks up one after the other, so that as many run as the budget says; what is left at the deadline goes at once.
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=6 min-healthy=5
service full replicas=3 cpu=2.5 min-healthy=100%
service free replicas=3
converge 30s
drain node-1 within 2m
run 1s
show tasks web
converge 60s
show nodes
show tasks full
run 2m
show tasks full
why full
activate node-1
converge 60s
why web
