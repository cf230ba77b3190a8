"""Pods that get their network by the CNI plug-in."""
