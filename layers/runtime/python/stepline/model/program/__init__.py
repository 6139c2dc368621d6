"""Programs as values: their inputs, contracts and results."""
