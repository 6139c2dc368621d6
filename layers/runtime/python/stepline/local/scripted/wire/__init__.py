"""The wires of the scripted model: chat completions, Converse, and the table of all."""
