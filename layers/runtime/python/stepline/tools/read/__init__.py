"""`react.read`: its contract, its requests and their views."""
