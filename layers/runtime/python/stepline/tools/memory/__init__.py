"""The search of what earlier turns said."""
