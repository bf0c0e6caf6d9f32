# The only manager is away for a minute: what runs runs on, programs that end meanwhile are replaced when it is back.
managers 1
nodes 3 cpu=4 mem=8g
run 2s
service web replicas=3
service db replicas=2
converge 30s
crash manager-1
run 5s
end web.1 1
kill-agent node-2 for 3s
run 55s
show tasks
boot manager-1
converge 60s
show tasks
why web
