"""Checks of a deployed stage and its account that need nothing of the other commands."""
