"""The context of a model request: what is asked, what it may cost, and how it is made to fit."""
