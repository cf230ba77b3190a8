"""Kubernetes: the manifests in `deploy/`, their schemas, and a real API server for tests."""
