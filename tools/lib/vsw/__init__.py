"""What tools/demo and perf/run share: the machine, processes, and a running switch. Python's
standard library only."""
