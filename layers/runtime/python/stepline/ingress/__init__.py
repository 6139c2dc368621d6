"""Ingress: connections, messages, events and feedback, validated and admitted to the log."""
