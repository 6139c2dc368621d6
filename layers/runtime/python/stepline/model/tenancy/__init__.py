"""Limits, consumption and prices."""
