"""Import: documents of a conversation, ours or those of the existing system, become the batches of a log. Pure."""
