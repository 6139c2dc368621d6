"""The commands of `stepline`."""
