"""The port of MCP servers."""
