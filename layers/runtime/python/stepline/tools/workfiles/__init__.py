"""Tools for the project of a conversation: patch a file, search the files, check out those of an earlier turn."""
