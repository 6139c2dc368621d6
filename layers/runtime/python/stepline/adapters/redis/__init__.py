"""Broadcast and signals over Redis."""
