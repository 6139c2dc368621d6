"""Calls that a function makes for programs: their declaration by a bundle, and the model as a tool."""
