"""Endpoints in the protocols that existing clients speak."""
