"""Archives that programs write, read without trusting their own headers."""
