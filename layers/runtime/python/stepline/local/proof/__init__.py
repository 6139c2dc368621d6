"""Proofs: the claims of a stage, tried one by one through its public entry points, and the report of what held."""
