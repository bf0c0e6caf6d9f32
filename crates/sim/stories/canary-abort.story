# A canary is aborted: the tasks that it stood beside are the same as before. Another one fails: the update takes itself back, and again nothing else happens.
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=3 canary=1 on-failure=rollback
converge 30s
show tasks
update web version=2
run 8s
show tasks
abort web
run 5s
show tasks
update web does=unstartable
converge 60s
show tasks
why web
