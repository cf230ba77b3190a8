"""Two Nodes with a gateway bridge each: the scenarios of OVN-Kubernetes' two documents on real
traffic."""
