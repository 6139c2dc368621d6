"""Endpoints of a conversation's past: forks and branches."""
