"""Traces of turns, for operators of the deployment."""
