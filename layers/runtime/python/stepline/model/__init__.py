"""Values only: frozen, equal by content, without I/O."""
