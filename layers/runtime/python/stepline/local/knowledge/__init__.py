"""Build the index of a knowledge space: files of a folder or a git repository, split into sections, in one file."""
