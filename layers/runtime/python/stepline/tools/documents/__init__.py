"""Documents made from Markdown."""
