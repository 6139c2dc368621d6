"""A generation as lanes that clients watch while it is written."""
