# A node dies, and its tasks move. When it comes back, what ran on it is cleared away and the tasks stay where they are.
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=6
service probe global
converge 30s
show nodes
crash node-2
run 10s
show nodes
run 30s
show nodes
converge 30s
show tasks web
why web
boot node-2
converge 60s
show nodes
show tasks
