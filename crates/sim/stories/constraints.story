# A node whose label changes loses what no longer complies; what fits nowhere waits and says why.
nodes 4 cpu=2 mem=4g label zone=a,b
run 2s
service web replicas=4 constraint=node.labels.zone==a cpu=0.5
service probe global constraint=node.labels.zone!=b
converge 30s
show tasks
label node-1 zone=b
converge 60s
show tasks
label node-3 zone=b
converge 60s
show tasks
label node-2 zone=a
converge 60s
show tasks
