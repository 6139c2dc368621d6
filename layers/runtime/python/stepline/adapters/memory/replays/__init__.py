"""Replays of single rounds in this process."""
