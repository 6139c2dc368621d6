"""Messages and frames on the websocket."""
