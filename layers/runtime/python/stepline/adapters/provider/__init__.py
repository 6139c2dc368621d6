"""Calls to any provider of models: roles, retries, and the limits of an answer."""
