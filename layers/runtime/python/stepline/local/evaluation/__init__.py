"""Evaluation sets: cases in YAML, played by the agent in this process, judged, and reported."""
