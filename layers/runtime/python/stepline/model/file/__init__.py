"""Files as values: types, signatures and attachments."""
