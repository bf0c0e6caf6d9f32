# Two canaries of a new revision stand beside the tasks of the lowest slots. They wait until somebody promotes them; meanwhile the originals live their own
# life. Then they have their slots, and the others are changed one by one.
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=4 canary=2
converge 30s
update web version=2
run 8s
show tasks
end web.1 1
run 5s
show tasks
promote web
converge 60s
show tasks
why web
