"""Chat completions of the scripted model."""
