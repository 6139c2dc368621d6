"""Generations for bundles: one model call, streamed by channel to subscribers."""
