"""Commands that serve the clients of other protocols."""
