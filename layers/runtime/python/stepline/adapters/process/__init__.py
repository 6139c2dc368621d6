"""Programs as forks of a warm process in namespaces, on this machine. Linux only."""
