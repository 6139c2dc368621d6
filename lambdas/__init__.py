"""One module a function."""
