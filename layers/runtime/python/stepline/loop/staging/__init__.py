"""Rounds in the layout `journal`: the contents that they show in full, and their requests."""
