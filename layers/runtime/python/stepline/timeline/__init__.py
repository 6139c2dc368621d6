"""The timeline of a conversation: pure functions of its log."""
