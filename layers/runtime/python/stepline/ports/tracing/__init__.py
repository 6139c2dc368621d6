"""Traces of turns, for whoever watches the deployment."""
