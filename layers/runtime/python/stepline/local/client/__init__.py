"""Clients: of the websocket, as a pure fold of frames and a session that feeds it; and of the HTTP API."""

from __future__ import annotations

from typing import Final

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "::1")
"""The names of this machine; the environment's proxy does not apply to them."""
