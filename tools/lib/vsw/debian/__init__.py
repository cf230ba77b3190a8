"""Packages of Debian: their trees, their manual pages and their archives."""
