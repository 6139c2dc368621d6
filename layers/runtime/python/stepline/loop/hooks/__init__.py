"""A bundle's hooks at their places in a turn."""
