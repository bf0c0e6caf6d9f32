# Somebody sets the managers' clocks: first ahead by two hours, then back by three. No agent is taken for silent, and
# what waits for its delay does not wait for hours.
seed 5
managers 3
nodes 3
service web replicas=3 delay=5s
run 10s
show tasks web
clock manager-1 2h
clock manager-2 2h
clock manager-3 2h
run 20s
show nodes
show tasks web
clock manager-1 -3h
clock manager-2 -3h
clock manager-3 -3h
run 1s
end web.1 1
run 4s
show tasks web
run 4s
show tasks web
converge 10s
