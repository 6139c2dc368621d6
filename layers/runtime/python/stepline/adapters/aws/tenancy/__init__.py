"""Limits, costs and erasure as rows of the table."""
