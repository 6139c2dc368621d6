"""A generation from its pieces to what listeners see and what the loop records: parser, guard, show and judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from stepline.model.source import Citation
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.decision.read import RoundVerdict, read_decision
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.decision.shape import PrefixGuard
from stepline.protocol.parser.channel_parser import ChannelParser, CloseReason, Transcript
from stepline.protocol.stream.lane import AbortReason, LaneClosed, LaneEvent, LaneFacts, LaneOpened
from stepline.protocol.stream.show import Show
from stepline.tools.catalogue import default_registry

SIZES = (1, 2, 7, 13, 64, 10**9)
SPECS = {spec.tool_id: spec for spec in default_registry(executes=True).specs}
SOURCES = {
    1: Citation(sid=1, title="First", url="https://example.com/1"),
    3: Citation(sid=3, title="Third", url="https://example.com/3"),
}
RULES = RoundRules(
    tools=SPECS,
    allowed=tuple(name for name, spec in SPECS.items() if spec.in_react),
    call_id=lambda index: f"tc_{index:012d}",
    turn="turn_20261122T101010_abcdef",
    fanout=FanoutRule(mode="safe_fanout"),
)
SINGLE = replace(RULES, fanout=FanoutRule())
TOLERANT = replace(RULES, strict=False)
CITING = replace(RULES, sources=SOURCES)


@dataclass
class Lane:
    """One lane as a client folds it."""

    facts: LaneFacts
    text: str = ""
    aborted: AbortReason = ""
    closed: bool = False


@dataclass
class Played:
    """A generation, heard to its end or to where it was cut."""

    transcript: Transcript
    verdict: RoundVerdict
    cut: str
    answer: str
    lanes: dict[str, Lane] = field(default_factory=dict)

    @property
    def texts(self) -> dict[str, str]:
        """The text of each lane that no other one made void."""
        void = {lane.facts.replaces for lane in self.lanes.values()}
        return {name: lane.text for name, lane in self.lanes.items() if name not in void}

    @property
    def codes(self) -> list[str]:
        """The codes of the notices for the model."""
        return [notice.code for notice in self.verdict.notices]


def cut(text: str, size: int) -> list[str]:
    """Return a text in pieces."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def play(
    pieces: Iterable[str],
    rules: RoundRules = RULES,
    *,
    reason: CloseReason = "eof",
    stop_reason: str = "end_turn",
) -> Played:
    """Hear a generation; `reason` is why it ends, if no rule ends it before."""
    events: list[LaneEvent] = []
    parser, guard, show = ChannelParser(), PrefixGuard(), Show(rules, events.append)
    code = ""
    for piece in pieces:
        code = guard.feed(piece) if rules.strict else ""
        if code:
            parser.feed(piece)
            break
        show.show(parser.feed(piece))
        if code := show.cut:
            break
    reason = "policy" if code else reason
    rest = parser.close(reason)
    if not (rules.strict and guard.violation):
        show.show(rest)
    show.close(reason if reason in ("policy", "cancelled", "provider_error") else "")
    transcript = parser.transcript()
    verdict = read_decision(transcript, rules, stop_reason=stop_reason, streamed_answer=show.answer)
    return Played(transcript, verdict, code, show.answer, fold_lanes(events))


def fold_lanes(events: Sequence[LaneEvent]) -> dict[str, Lane]:
    """Return the lanes, each opened before its text and closed once with all of it."""
    lanes: dict[str, Lane] = {}
    for event in events:
        if isinstance(event, LaneOpened):
            assert event.lane not in lanes, f"{event.lane} is opened twice"
            assert not event.facts.replaces or event.facts.replaces in lanes
            lanes[event.lane] = Lane(event.facts)
            continue
        lane = lanes[event.lane]
        assert not lane.closed, f"{event.lane} is closed already"
        if isinstance(event, LaneClosed):
            lane.closed, lane.aborted = True, event.aborted
            assert event.chars == len(lane.text)
        else:
            assert event.text
            lane.text += event.text
    assert all(lane.closed for lane in lanes.values()), "a lane is left open"
    return lanes
