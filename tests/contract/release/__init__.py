"""Conversations as each release has written them, and what this one reads of them."""
