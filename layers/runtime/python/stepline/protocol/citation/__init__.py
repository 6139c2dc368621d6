"""Citations in growing text: tokens, links, and where they are not text."""
