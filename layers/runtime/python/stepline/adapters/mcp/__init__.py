"""A client of MCP servers over the official package, which is loaded when the first server is asked."""
