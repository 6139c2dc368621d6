"""The chat on a terminal, and how events are shown."""
