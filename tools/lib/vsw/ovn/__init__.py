"""A real OVN control plane as an oracle: what tools/record-ovn is made of.

`control` runs Debian's OVN on a private Open vSwitch. `topology` tells it a Node of OVN-Kubernetes.
`bridge` has the flows of that Node's gateway bridge, `scenarios` the packets. A mode is "sgw"
(shared gateway) or "lgw" (local gateway)."""

MODES = ("sgw", "lgw")
