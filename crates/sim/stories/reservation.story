# A dead task frees its reservation for one that waited.
nodes 1 cpu=2 mem=4g
run 2s
service first replicas=1 cpu=1.5 condition=none
converge 30s
service second replicas=1 cpu=1
run 5s
show tasks
end first.1 1
converge 30s
show tasks
why first
why second
