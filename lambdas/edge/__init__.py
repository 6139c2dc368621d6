"""The edge of every function: its wiring, and the events of the gateway."""
