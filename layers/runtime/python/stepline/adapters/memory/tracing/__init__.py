"""Traces kept in the process."""
