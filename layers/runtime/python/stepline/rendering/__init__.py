"""Rendering: each entry of the log as the text that the model reads."""
