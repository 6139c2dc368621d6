"""Replays of single rounds over AWS: their rows, and the call of the function that makes them."""
