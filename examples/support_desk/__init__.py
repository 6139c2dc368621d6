"""A service that opens a conversation by an event, and reads the answer as a stream by long poll."""
