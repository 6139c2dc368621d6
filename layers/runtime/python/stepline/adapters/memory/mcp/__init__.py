"""The memory twin of MCP servers."""
