"""Streaming of a generation as lanes that clients watch."""
