"""Import: turn documents of a conversation, Stepline's or the existing system's, into the batches of a log. Pure."""
