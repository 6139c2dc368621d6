"""Tools for the project of a conversation: patch a file, search the files, take over those of an earlier turn."""
