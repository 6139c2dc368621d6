"""The HTTP API: a table of endpoints, and the router that finds the one for a request."""
