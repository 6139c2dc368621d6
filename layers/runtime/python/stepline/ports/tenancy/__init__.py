"""The ports of limits, costs and erasure."""
