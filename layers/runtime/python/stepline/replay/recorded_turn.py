"""A recorded turn: its batches, the model's answers in it, the results of its calls, and the events from outside.

Pure. Source: docs/concepts/time-travel.md#replay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from stepline.context.request import digest_request, digest_whole_request
from stepline.context.summary_text import split_text
from stepline.errors import InputError, NotFoundError
from stepline.loop.summarise import PREFIX_ROLE, SUMMARY_ROLE
from stepline.loop.title import ROLE as TITLE_ROLE
from stepline.model.base import Value
from stepline.model.batch import Batch, home_lane
from stepline.model.decision import Action, Declined, Sent, digest_call
from stepline.model.entry import (
    ApprovalAnswered,
    Closed,
    Compacted,
    Contributed,
    Decided,
    Entry,
    HookName,
    Opened,
    Reopened,
    Resulted,
    Started,
    TakenOver,
    Titled,
)
from stepline.model.ids import Lane
from stepline.model.usage import Usage
from stepline.ports.model import DECISION_ROLE, ModelRequest
from stepline.protocol.decision.spell import spell_generation, tagged
from stepline.protocol.parser.grammar import THINKING

ABORTED: Final = "aborted"
"""The stop reason of a call that a steer ended. Source: `stepline.ports.model.Completion`."""
_ANSWER: Final = re.compile(r'"final_answer"\s{0,9}:\s{0,9}"')
_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
AFTERWARDS: Final = "post_run_hook"
_OUTPUT: Final = "output"
_REFUSED: Final = "refusal"


class RecordedAnswer(Value):
    """One answer of the model. `sha256` is the beginning of its request's digest as hex digits, "" if none was recorded.

    `whole`: the digest is that of `digest_whole_request`. With `upto` it answers every request of its role until that
    batch is put: the log has the text that the last of several calls wrote. A steer arrived after `steered_at` characters;
    -1 if none did.
    """

    role: str
    text: str
    sha256: str = ""
    whole: bool = False
    stop_reason: str = "end_turn"
    model: str = ""
    usage: Usage = Usage()
    declined: Declined | None = None
    upto: int = 0
    steered_at: int = -1

    def answers(self, request: ModelRequest) -> bool:
        """Return True if this is the answer to an equal request, or to any of its role if it has no digest."""
        if request.role != self.role:
            return False
        digest = digest_whole_request if self.whole else digest_request
        return not self.sha256 or digest(request).startswith(self.sha256)


@dataclass(frozen=True, kw_only=True)
class RecordedTurn:
    """A closed turn of a log: `batches` are the whole log up to its end, and `opened` opens it.

    `lane` has the turn's objects: that of its own log, which of a fork's turn may be an origin's.
    """

    lane: Lane
    turn: str
    opened: int
    batches: tuple[Batch, ...]

    @property
    def before(self) -> tuple[Batch, ...]:
        """The log up to the batch that opens the turn."""
        return self.batches[: self.opened]

    @property
    def own(self) -> tuple[Batch, ...]:
        """The batches of the turn after the one that opens it."""
        return self.batches[self.opened :]

    @property
    def decisions(self) -> tuple[Decided, ...]:
        """Its decisions, a round each."""
        return tuple(entry for entry in self._entries if isinstance(entry, Decided))

    @property
    def closed(self) -> Closed:
        """Its end."""
        return next(e for e in self._entries if isinstance(e, Closed) and e.turn == self.turn)

    @cached_property
    def actions(self) -> Mapping[str, Action]:
        """Its calls by id, those that a person edited as they ran."""
        found = {action.call_id: action for decision in self.decisions for action in decision.actions}
        edits = (e.action for e in self._entries if isinstance(e, ApprovalAnswered) and e.action)
        return found | {action.call_id: action for action in edits}

    @cached_property
    def results(self) -> tuple[Resulted, ...]:
        """The results of its calls."""
        return tuple(entry for entry in self._entries if isinstance(entry, Resulted))

    def hook(self, name: HookName, iteration: int) -> Contributed | None:
        """Return the recorded end of a hook; None if it did not run."""
        ends = (e for e in self._entries if isinstance(e, Contributed) and e.hook == name)
        return next((e for e in ends if name != "before_round" or e.iteration == iteration), None)

    def answers(self) -> Iterator[RecordedAnswer]:
        """Yield the model's answers, in order."""
        for batch in self.own:
            for entry in batch.entries:
                match entry:
                    case Decided():
                        yield answer_of(entry)
                    case Titled() if entry.usage is not None:
                        yield RecordedAnswer(role=TITLE_ROLE, text=_spell_title(entry), usage=entry.usage)
                    case Compacted():
                        yield from _summaries(entry, batch.n)
                    case _:
                        pass

    @property
    def _entries(self) -> Iterator[Entry]:
        return (entry for batch in self.own for entry in batch.entries)


def find_turns(lane: Lane, batches: Sequence[Batch], wanted: Sequence[str] = ()) -> list[RecordedTurn]:
    """Return the turns of a log that can be replayed, or those of the `wanted` ids, "1" for the first.

    Raises NotFoundError `turn_not_found`; InputError: `turn_open`, it has not ended; `turn_not_recorded`, it was
    imported, or recorded by a release that kept no facts of its requests.
    """
    log = tuple(batches)
    opened = {e.turn: batch.n for batch in log for e in batch.entries if isinstance(e, Opened)}
    closed = {e.turn: batch.n for batch in log for e in batch.entries if isinstance(e, Closed)}
    names = list(opened)
    for name in wanted:
        if name not in opened and not (name.isdecimal() and 0 < int(name) <= len(names)):
            raise NotFoundError(f"this conversation has no turn {name[:80]}", code="turn_not_found")
    chosen = [name if name in opened else names[int(name) - 1] for name in wanted]
    found = []
    for name in chosen or names:
        made = _turn(lane, log, name, opened[name], closed.get(name, 0))
        if isinstance(made, RecordedTurn):
            found.append(made)
        elif chosen:
            raise made
    if not found:
        raise InputError("this conversation has no turn that can be replayed", code="turn_not_recorded")
    return found


def _turn(
    lane: Lane, log: tuple[Batch, ...], name: str, opened: int, closed: int
) -> RecordedTurn | InputError:
    if not closed:
        return InputError(f"{name} has not ended: wait for its end, or stop it", code="turn_open")
    home = home_lane(lane, log, opened)
    turn = RecordedTurn(lane=home, turn=name, opened=opened, batches=log[:closed])
    if any(decision.sent is None for decision in turn.decisions):
        return InputError(
            f"{name} has no facts of its requests: it was imported, or an old release recorded it",
            code="turn_not_recorded",
        )
    return turn


def answer_of(decision: Decided) -> RecordedAnswer:
    """Return the model's answer in a round."""
    sent = decision.sent or Sent(digest="")
    return RecordedAnswer(
        role=DECISION_ROLE,
        text=spell_generation(decision),
        sha256=sent.sha256,
        whole=not sent.carries_digest,
        stop_reason=decision.stop_reason or (_REFUSED if decision.declined else "end_turn"),
        model=decision.model,
        usage=decision.usage or Usage(),
        declined=decision.declined,
        steered_at=_shown_end(decision) if decision.stop_reason == ABORTED else -1,
    )


def _shown_end(decision: Decided) -> int:
    """Return up to where the text of an interrupted decision was read: to the end of the answer that was shown."""
    opened = _ANSWER.search(decision.raw)
    if opened is None or not decision.answer:
        return opened.start() if opened else len(decision.raw)
    at = opened.end()
    for _ in decision.answer:
        found = _CHARACTER.match(decision.raw, at)
        at = found.end() if found else at
    return at


def _spell_title(entry: Titled) -> str:
    thought = tagged(THINKING.name, entry.text) if entry.text != entry.title else ""
    return f"{thought}{tagged(_OUTPUT, entry.title)}"


def _summaries(entry: Compacted, n: int) -> Iterator[RecordedAnswer]:
    """Yield the summaries of a compaction; without the model's text, that of the runtime follows again."""
    texts = {SUMMARY_ROLE: entry.summary if entry.cut else "", PREFIX_ROLE: entry.checkpoint}
    for role, text in texts.items():
        if text:
            said = "" if entry.reason else split_text(text)[0]
            yield RecordedAnswer(role=role, text=said, usage=entry.usage or Usage(), upto=n)


# --- the order of a log


def is_repair(batch: Batch, before: Sequence[Batch]) -> bool:
    """Return True if a batch continues a turn after a failure: it changes nothing that the model reads."""
    if all(isinstance(entry, Reopened | TakenOver) for entry in batch.entries):
        return True
    calls = [entry.call_id for entry in batch.entries if isinstance(entry, Started)]
    seen = {e.call_id for one in before for e in one.entries if isinstance(e, Started)}
    return len(calls) == len(batch.entries) and any(call in seen for call in calls)


def is_outside(batch: Batch) -> bool:
    """Return True if a batch is not of the turn's own steps: a message, an answer to a request, a title, feedback."""
    for entry in batch.entries:
        if isinstance(entry, Contributed) and entry.hook == AFTERWARDS:
            return True
        if isinstance(entry, Started) and entry.call_id.startswith(AFTERWARDS):
            return True
    return not batch.step.startswith(("decide", "act", "close"))


def instant_of(batch: Batch) -> str:
    """Return when the work that a batch records began."""
    entry = batch.entries[0]
    if isinstance(entry, Decided):
        return entry.started_at
    at = getattr(entry, "at", "")
    return at if isinstance(at, str) and at else batch.at


def end_of(batch: Batch) -> str:
    """Return when the work that a batch records ended: a decision may have noted it, shortly before its batch was put."""
    entry = batch.entries[0]
    noted = entry.plan.last_ack_ts if isinstance(entry, Decided) and entry.plan is not None else ""
    return noted if isinstance(entry, Decided) and noted > entry.started_at else batch.at


def same_call(one: Action, other: Action) -> bool:
    """Return True if two calls ask for the same: tool, parameters and program."""
    return digest_call(one) == digest_call(other)
