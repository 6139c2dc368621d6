"""Commands that write the content of a conversation: documents, files, and its project."""
