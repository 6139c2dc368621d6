"""Programs as values: what one is given, promises and leaves behind."""
