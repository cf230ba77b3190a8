"""What Debian's ovs-ofctl and ovs-vswitchd say to each other in OpenFlow."""
