"""Commands of limits, costs and erasure."""
