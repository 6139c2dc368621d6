"""Tools the model may call: one module a tool, each with one schema, run the same way."""
