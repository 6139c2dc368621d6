"""Uploads in this process."""
