"""Endpoints of limits and erasure."""
