"""Many frames folded by the client, one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from stepline.local.client.change import Effect
from stepline.local.client.reducer import fold_frame
from stepline.local.client.state import ClientState
from stepline.model.wire.event import Frame


def fold_frames(state: ClientState, frames: Iterable[Frame]) -> tuple[ClientState, tuple[Effect, ...]]:
    """Return the state after these frames, and all effects in order."""
    effects: list[Effect] = []
    for frame in frames:
        state, more = fold_frame(state, frame)
        effects += more
    return state, tuple(effects)
