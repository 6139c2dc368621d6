"""In-memory twins of the ports, with every rule of the real ones, for tests and for a run without AWS."""
