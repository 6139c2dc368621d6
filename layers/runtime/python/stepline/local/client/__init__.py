"""A client of the websocket: a pure fold of frames, and a session that feeds it."""
