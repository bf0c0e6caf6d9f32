# A service of which a task ended a short while ago is not evened out; once it has been at rest for ten minutes it is,
# although nothing else happens.
nodes 1 cpu=4 mem=8g
cluster rebalance=2
service web replicas=6
run 1s
nodes 2 cpu=4 mem=8g
end web.4 0
run 5m
show nodes
run 10m
show nodes
