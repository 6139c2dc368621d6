"""The composition root: builders of the parts that functions are made of. Only they know every adapter."""
