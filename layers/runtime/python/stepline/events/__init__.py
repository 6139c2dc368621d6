"""The durable events of clients, derived from the log."""
