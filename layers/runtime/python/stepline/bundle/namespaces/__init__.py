"""A bundle's own paths."""
