"""The loop: admit, decide, act, close, sweep and resume, as use cases over ports."""
