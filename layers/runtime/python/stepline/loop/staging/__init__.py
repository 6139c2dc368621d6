"""Rounds that ask in the layout `journal`: what they show in full, and their requests."""
