"""Wiring of replays of single rounds."""
