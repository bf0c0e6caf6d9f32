# A new revision goes through one slot at a time; one that does not come to run holds the update up, and the next one takes its place.
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=3 parallelism=1
converge 30s
update web version=2
run 1s
show tasks
converge 60s
show tasks
update web does=unstartable
run 20s
show services
update web does=run
converge 60s
show tasks
why web
