"""The node of Antrea's pipeline document: its network, its program, what is shown on it. Python's standard library only."""
