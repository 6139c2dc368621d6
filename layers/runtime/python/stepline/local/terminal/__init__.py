"""The chat on a terminal, and the display of events."""
