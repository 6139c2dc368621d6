"""The timeline of a conversation, as pure functions of its log: what happened, what the model reads, what clients hear."""
