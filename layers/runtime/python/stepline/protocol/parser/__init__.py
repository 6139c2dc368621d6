"""The text of a generation as channels: tags, fields and a transcript."""
