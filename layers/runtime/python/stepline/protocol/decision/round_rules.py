"""The rules of the round that a generation belongs to, applied during the stream and at its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stepline.model.source import Citation
from stepline.protocol.decision.call_check import Refer, ToolSpecLike, refers_to_nothing
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.decision.staging import NamePath

AcceptValue: TypeAlias = Callable[[Any], Any]
"""Returns a value in its recorded form. Raises ToolError with the problems, each with the path of its field."""


@dataclass(frozen=True, kw_only=True)
class RoundRules:
    """The actions that may run in a round, and the names of its lanes.

    `tools` are the contracts by id, `allowed` the ids that the model itself may call. `sources` are those its
    texts may cite, `refer` finds the targets of their references, `call_id` names the call of a decision's instance.
    `strict` ends a generation that does not begin with its thinking, and runs no call whose JSON was repaired by a guess.
    `stage` names artifacts that a decision stages for the next round; None where that is unknown. `accept` checks the value
    of an agent with a result type; None for any other.
    """

    tools: Mapping[str, ToolSpecLike]
    allowed: Collection[str]
    call_id: Callable[[int], str]
    turn: str
    iteration: int = 0
    fanout: FanoutRule = field(default_factory=FanoutRule)
    sources: Mapping[int, Citation] = field(default_factory=dict)
    refer: Refer = refers_to_nothing
    last_round: bool = False
    strict: bool = True
    stage: NamePath | None = None
    accept: AcceptValue | None = None
