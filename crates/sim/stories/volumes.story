# A volume that one task uses at a time: two replicas go to the two nodes that have it, and the third waits for one of them.
nodes 3 cpu=4 mem=8g
cluster orphan-after=1m
volumes node-1 data=none logs=onewriter
volumes node-2 data=none
run 2s
service db replicas=3 volume=data
service reader replicas=4 volume=logs:ro
service writer replicas=1 volume=logs
run 20s
show tasks
why db
# The first node dies. What it held is held until the node is given up; then, when it comes back, it is free at once.
crash node-1
run 40s
show tasks db
run 60s
boot node-1
converge 60s
show tasks
# The second node shares its volume: who waited gets a place there. Then it shares less, and as few as can be go.
volumes node-2 data=onewriter
service copy replicas=2 volume=data:ro
run 20s
show tasks copy
volumes node-2 data=none
run 20s
show tasks
why copy
# Read-only now: who writes goes, and one that reads takes the place.
volumes node-2 data=none,ro
run 20s
show tasks db
show tasks copy
why db
# Gone.
volumes node-2
run 20s
show tasks copy
why copy
