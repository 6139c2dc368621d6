"""In-memory twins of the ports, with all rules of the real adapters, for tests and for a run without AWS."""
