"""Buckets that are there again after each start."""
