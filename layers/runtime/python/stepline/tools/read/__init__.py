"""`react.read`: its contract, its requests and what they show."""
