"""Converse of the scripted model."""
