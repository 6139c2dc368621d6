"""Replay: recorded turns run again in this process, with their recorded answers, results and times."""
