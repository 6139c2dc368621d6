"""Summaries for a compaction: written by a model in as many calls as needed, or else by the runtime.

If a model returns nothing, refuses, or is too small for the request, or if the user steers meanwhile, the turn
continues with the runtime's own summary. Retryable errors are left to the state machine.
Source: docs/concepts/context.md#compaction.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stepline.context.compaction import Outline
from stepline.context.summary_text import (
    compose,
    fit_lines,
    history_pieces,
    prefix_pieces,
    serialise,
    shown_bytes,
    split_chunks,
    split_text,
    take_ledger,
    tell_rounds,
    tell_turns,
)
from stepline.errors import ContextLimit, ModelRefused, SteplineError
from stepline.loop.attempt import Attempt, ask_whole
from stepline.model.base import Value
from stepline.model.usage import Usage, sum_usages
from stepline.ports.model import ModelRequest, Part
from stepline.rendering.piece import Piece, byte_length
from stepline.rendering.quote import quote
from stepline.timeline.fold import Timeline

logger = logging.getLogger(__name__)

SUMMARY_ROLE: Final = "context.compaction.summary"
PREFIX_ROLE: Final = "context.compaction.turn_prefix"
SUMMARY_TOKENS: Final = 640
PREFIX_TOKENS: Final = 720
NOTHING_SAID: Final = "The model broke the protocol, and nothing came of it."
"""The summary of rounds without a call, a note or an answer."""
TOO_LONG: Final = 3
"""A text longer than its room by this factor is not accepted as a summary."""
STEERED: Final = "steered"
FRAME_BYTES: Final = 400
"""Slack for the text around the parts of a request."""

_FAILED: Final = (ContextLimit, ModelRefused)


class Words(Value):
    """The summaries that replace turns and rounds; `reason` says why a model did not write all of them."""

    summary: str = ""
    checkpoint: str = ""
    reason: str = ""
    usage: Usage | None = None


@dataclass(frozen=True)
class _Subject:
    """The content that one of the two texts summarises, and the text `before` that it replaces."""

    pieces: Sequence[Piece]
    turns: Sequence[str]
    before: str
    most_bytes: int
    rounds: bool

    def own_words(self) -> str:
        """Return the runtime's own text."""
        if self.rounds:
            body = tell_rounds(self.pieces, self.before, self.most_bytes // 2)
        else:
            body = tell_turns(self.pieces, self.turns, self.before, self.most_bytes * 2 // 3)
        return self.composed(body) or NOTHING_SAID

    def composed(self, body: str) -> str:
        """Return a text with the ledger appended, after removing any ledger that its author wrote."""
        ledger = take_ledger(self.pieces, self.before, calls=self.rounds)
        return compose(split_text(body)[0], ledger, self.most_bytes)


def own_summaries(timeline: Timeline, outline: Outline) -> Words:
    """Return the runtime's own summaries."""
    return Words(
        summary=_history(timeline, outline).own_words() if outline.first_kept else "",
        checkpoint=_prefix(timeline, outline).own_words() if outline.entry.split else "",
    )


def summarise(attempt: Attempt, timeline: Timeline, outline: Outline, *, budget_bytes: int) -> Words:
    """Return a model's summaries, or the runtime's once the attempt's watch sees a steer.

    No request has more than `budget_bytes`. Raises retryable errors.
    """
    writer = _Writer(attempt, budget_bytes)
    texts, summary, checkpoint = attempt.agent.summariser, "", ""
    if outline.first_kept:
        history = _history(timeline, outline)
        summary = writer.write(history, SUMMARY_ROLE, texts.summary, SUMMARY_TOKENS)
    if outline.entry.split:
        prefix = _prefix(timeline, outline)
        checkpoint = writer.write(prefix, PREFIX_ROLE, texts.prefix, PREFIX_TOKENS)
    return Words(
        summary=summary,
        checkpoint=checkpoint,
        reason=writer.reason,
        usage=sum_usages([Usage(), *writer.usages]),
    )


def _history(timeline: Timeline, outline: Outline) -> _Subject:
    before = timeline.compaction.memory
    return _Subject(
        pieces=history_pieces(timeline, outline),
        turns=timeline.turns,
        before=before.summary if before else "",
        most_bytes=outline.memory_bytes,
        rounds=False,
    )


def _prefix(timeline: Timeline, outline: Outline) -> _Subject:
    before = timeline.compaction.checkpoint
    return _Subject(
        pieces=prefix_pieces(timeline, outline),
        turns=timeline.turns,
        before=before.checkpoint if before else "",
        most_bytes=outline.checkpoint_bytes,
        rounds=True,
    )


@dataclass
class _Writer:
    """Ask a model as often as needed; `reason` says why its text was not used, `usages` are the calls'."""

    attempt: Attempt
    budget_bytes: int
    usages: list[Usage] = field(default_factory=list)
    reason: str = ""

    def write(self, subject: _Subject, role: str, system: str, max_tokens: int) -> str:
        """Return a text about the subject: the model's if it is valid, else the runtime's."""
        body = ""
        try:
            body = self._ask(subject, role, system, max_tokens)
        except _FAILED as error:
            logger.warning("a summary failed", extra={"code": error.reason})
            self.reason = _why(error)
        return subject.composed(body) if body else subject.own_words()

    def _ask(self, subject: _Subject, role: str, system: str, max_tokens: int) -> str:
        """Return the model's text, updated chunk by chunk."""
        text, most = split_text(subject.before)[0], subject.most_bytes
        room = self.budget_bytes - byte_length(system) - most - FRAME_BYTES
        for chunk in split_chunks(serialise(subject.pieces, subject.turns), room):
            if self.attempt.watch.requested:
                self.reason = STEERED
                return ""
            before = f"--- summary of what went before\n{quote(fit_lines(text, most))}\n" if text else ""
            request = ModelRequest(
                role=role,
                system=(Part(text=system),),
                content=(Part(text=f"{before}{chunk}--- end\nWrite the summary.\n"),),
                max_tokens=max_tokens,
            )
            attempt = self.attempt
            completion = ask_whole(attempt.asked, request, attempt.watch, attempt.lost)
            self.usages.append(completion.cost)
            if completion.aborted:
                self.reason = STEERED
                return ""
            text = completion.text.strip()
            if not text or completion.declined:
                self.reason = "summary_refused" if completion.declined else "summary_empty"
                return ""
            if shown_bytes(text) > TOO_LONG * most:
                self.reason = "summary_too_long"
                return ""
        return text


def _why(error: SteplineError) -> str:
    return "summary_too_large" if isinstance(error, ContextLimit) else "summary_failed"
