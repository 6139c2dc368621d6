"""Spans of steps, of calls, and of whole turns."""
