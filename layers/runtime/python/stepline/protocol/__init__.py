"""Parsing and validation of the model's output, without I/O: channels, decision fields, acceptance."""
