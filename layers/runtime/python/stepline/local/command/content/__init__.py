"""Commands that write what a conversation holds: documents, files, and its project."""
