"""Inspection of a conversation: its rounds, their requests, replies and costs, its log and its documents."""
