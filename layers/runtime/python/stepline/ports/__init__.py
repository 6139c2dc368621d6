"""What the loop needs from the world: Protocols only. Every adapter of one port passes one contract suite."""
