"""A client of MCP servers over the official package, which is loaded with the first request."""
