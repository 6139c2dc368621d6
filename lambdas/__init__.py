"""The Lambda functions, one per module."""
