"""The composition root: builders of the parts of each function. Only this package knows every adapter."""
