"""The host's part (`vswitch-agent --host`) on real kernels."""
