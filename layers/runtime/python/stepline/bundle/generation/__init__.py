"""Generations for bundles: one model call, streamed by channels to subscribers."""
