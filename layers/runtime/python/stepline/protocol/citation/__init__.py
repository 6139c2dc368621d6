"""Citations in streamed text: tokens, links, and the text in which a token is no citation."""
