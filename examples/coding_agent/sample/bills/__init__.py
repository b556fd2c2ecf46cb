"""Splits bills."""
