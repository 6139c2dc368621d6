"""The remote tools of a turn."""
