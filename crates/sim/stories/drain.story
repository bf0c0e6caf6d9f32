# A drained node gives up its tasks, a paused one keeps them and takes no more, an active one takes tasks again.
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=6
service probe global
converge 30s
drain node-1
converge 60s
show tasks
pause node-2
scale web 8
converge 30s
show nodes
activate node-1
activate node-2
scale web 10
converge 30s
show nodes
why probe
