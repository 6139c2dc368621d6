"""The model's output taken apart, without I/O: channels, fields of a decision, what is accepted."""
