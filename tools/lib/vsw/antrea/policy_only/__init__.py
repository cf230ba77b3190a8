"""The demo of policy only mode: a routed CNI plug-in's Node, with the switch inserted."""
