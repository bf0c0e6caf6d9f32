# Replicas of two services spread over the nodes so that counts differ by at most one; a new task avoids the node with
# most tasks of its service; nodes that lost tasks fill up first.
nodes 3 cpu=8 mem=8g
run 2s
service web replicas=4
service api replicas=5
converge 30s
show nodes
show tasks
scale web 5
converge 30s
show tasks web
# The two highest slots of the other service go; what comes next goes where they were.
scale api 3
converge 30s
show nodes
scale web 6
converge 30s
show nodes
