"""A replay of one round, in the process of Decide."""

from __future__ import annotations

from typing import Any

import msgspec

from lambdas.edge.runtime import Event, logger
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.replays.replay_wiring import desk_of, rows_on_aws
from stepline.loop.replays.replay_round import replay_round
from stepline.ports.round_replay import ReplayCall


def make_replay(app: LoopApp, asked: Any) -> Event:
    """Make the replay of a `ReplayCall`; return its state, which no caller reads."""
    call = msgspec.convert(asked, ReplayCall)
    logger.append_keys(conversation=call.lane.conversation)
    own = app.of(call.bundle)
    own.ports.ledger.works_for(call.lane)
    state = replay_round(desk_of(own, rows_on_aws(own.settings, own.ports)), call)
    logger.info("replay done", extra={"state": state})
    return {"state": state}
