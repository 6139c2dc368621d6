"""The chat page on loopback: built when it is first opened, and served with the same headers as in AWS."""
