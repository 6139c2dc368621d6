"""Paths of a bundle's own."""
