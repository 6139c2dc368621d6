"""Skills as folders: read, chosen for an agent, listed in its instructions, and shown by path."""
