"""Lists of conversations, page by page."""
