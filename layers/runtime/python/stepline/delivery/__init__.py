"""Delivery: frames for the clients that listen, and effects that can be repeated from the log."""
