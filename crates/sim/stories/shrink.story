# A machine gets smaller: as few tasks as can be leave it, those of low priority first, and nothing comes back to it.
nodes 1 cpu=4 mem=8g gpu=2
run 2s
service low replicas=2 cpu=0.5 priority=10
service big replicas=1 cpu=2 priority=90
service cards replicas=2 gpu=1 cpu=0.25
converge 30s
show tasks
# Half a processor too little: one task of low priority is enough.
resources node-1 cpu=3 mem=8g gpu=2
converge 60s
show tasks
why low
# Far too little: the big one alone makes up for it, whatever its priority.
resources node-1 cpu=1.5 mem=8g gpu=2
run 20s
show tasks
# One of the cards is gone, and with it the task that has it.
resources node-1 cpu=8 mem=8g gpu=1
run 30s
show tasks
why cards
# A second machine takes what waits; the first one grows again, and nothing moves.
nodes 2 cpu=4 mem=8g gpu=2
converge 60s
show tasks
resources node-1 cpu=8 mem=8g gpu=4
run 30s
show tasks
