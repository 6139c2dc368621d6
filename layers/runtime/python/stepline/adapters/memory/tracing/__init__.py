"""Traces that are kept in the process."""
