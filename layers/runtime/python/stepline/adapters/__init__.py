"""Adapters of the ports: AWS, model providers, this machine, and in-memory twins."""
