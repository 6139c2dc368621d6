"""Import: turn the documents of a conversation, from Stepline or from the existing system, into the batches of a log. Pure."""
