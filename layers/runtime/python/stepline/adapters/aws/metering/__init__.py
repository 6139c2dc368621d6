"""Counters of what calls of AWS are billed for."""
