"""The calls of a provider of models, whichever it is: roles, further tries, and the bounds of an answer."""
