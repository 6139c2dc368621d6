"""The chat page on loopback: built when somebody opens it, and served with the headers that it has in AWS."""
