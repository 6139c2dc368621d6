"""Packages and project files that the local commands install."""
