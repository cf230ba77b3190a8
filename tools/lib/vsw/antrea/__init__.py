"""The node of Antrea's pipeline document, or two of them: networks, programs, what is shown on
them. Python's standard library only."""
