"""Benchmarks of the switch against DPDK's own testpmd on the same devices. `perf/run` is the way
in."""
