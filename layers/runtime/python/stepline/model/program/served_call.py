"""A call that a function makes for a running program: the request of the program's supervisor, and the answer.

The supervisor has no key of the model, no secret of a server and no access to the log. A function that has them makes
the call, and checks before it that the run may make it. Source: docs/concepts/execution.md#calls-that-a-function-makes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.program.execution import ToolEvent
from stepline.model.source import Source
from stepline.model.usage import ModelCall

SERVED_BYTES_MAX: Final = 4 * 1024 * 1024
"""The maximum bytes of a call, and of its answer: an invocation takes and returns 6 MB at most."""
SERVED_S: Final = 300
"""The maximum seconds of one call."""


class ServedCall(Value):
    """The call `number`, from 0, of a run; a supervisor that got no answer sends it again.

    `ticket` is the run's. `params` are JSON, bytes in the form of `pack_bytes`. `sources` are the rows of the pool
    that the run has added so far. `bundle` is the name of the conversation's bundle, "" for the stage's default one.
    """

    lane: Lane
    turn: str
    exec_id: str
    ticket: str
    number: int
    tool_id: str
    params: Any
    sources: tuple[Source, ...] = ()
    bundle: str = ""


class ServedAnswer(Value):
    """The result of a call as JSON, or its error's code and message, and its other effects.

    `models` are the model calls that it made, which are noted beside the log already.
    """

    result: Any = None
    code: str = ""
    message: str = ""
    events: tuple[ToolEvent, ...] = ()
    sources: tuple[Source, ...] = ()
    models: tuple[ModelCall, ...] = ()


def parse_served(body: bytes) -> ServedAnswer:
    """Parse an answer. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(body, type=ServedAnswer)
