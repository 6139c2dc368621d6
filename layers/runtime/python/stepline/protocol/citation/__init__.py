"""Citations in streamed text: tokens, links, and the places where a token is no citation."""
