"""Parse a generation's text into channels: tags, fields and a transcript."""
