"""The tools of the web: a search, and pages by their addresses."""
