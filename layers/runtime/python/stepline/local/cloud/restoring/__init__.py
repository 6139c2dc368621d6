"""A stage as it was at an earlier time: its table, its objects, and the deployment that uses them."""
