"""Repositories in a sandbox."""
