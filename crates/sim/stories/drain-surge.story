# One replica is never missing while its node is drained: the next one runs elsewhere before it ends. Taken back, the older one stays.
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=1 max-surge=1
converge 30s
show tasks web
drain node-1
run 3s
show tasks web
activate node-1
converge 30s
show tasks web
drain node-1
converge 60s
show tasks web
why web
