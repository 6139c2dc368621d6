"""Counters of the billed units of AWS calls."""
