"""Long-running checks: what `tools/soak` runs."""
