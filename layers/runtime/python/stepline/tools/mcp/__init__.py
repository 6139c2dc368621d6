"""Tools of MCP servers: the servers of a bundle, their lists, and calls."""
