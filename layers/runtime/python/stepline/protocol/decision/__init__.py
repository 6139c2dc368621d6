"""The decisions of a generation: read, repaired, judged and fanned out."""
