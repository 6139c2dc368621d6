"""Tools that the model can call: one module per tool, each with one schema, all run the same way."""
