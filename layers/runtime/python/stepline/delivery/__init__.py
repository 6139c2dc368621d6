"""Delivery: frames to the clients that listen, and effects repeated from the log."""
