"""The container image: what is in it, and its archive."""
