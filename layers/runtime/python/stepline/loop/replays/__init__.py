"""Replays of single rounds: the model is asked once more, and nothing is appended."""
