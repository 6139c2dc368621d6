"""The HTTP API: a table of endpoints, and how a request finds one."""
