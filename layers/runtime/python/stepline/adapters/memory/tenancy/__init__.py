"""Limits, costs and erasure in this process."""
