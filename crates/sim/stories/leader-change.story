# Leaders change in the middle of a scale-up, once by a crash and once without reason; nothing is made twice.
managers 3
nodes 4 cpu=8 mem=8g
run 2s
service web replicas=2
converge 30s
scale web 30
run 5ms
crash manager-1 for 5s
run 20ms
depose
run 300ms
crash manager-2 for 5s
run 3s
show services
converge 90s
show services
show nodes
