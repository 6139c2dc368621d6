"""The search of earlier turns."""
