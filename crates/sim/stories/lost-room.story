# A report that frees room may be lost after room was promised on the strength of it: no node is promised more than it has.
seed 1
managers 1
nodes 1 cpu=4 mem=8g
service loop replicas=8 mem=3g does=unstartable
net delay=5ms..50ms loss=0.2% lost=2%
run 60s
show nodes
