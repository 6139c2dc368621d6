"""The ports in one process: twins that keep every rule of the real ones, for tests and for a run without AWS."""
