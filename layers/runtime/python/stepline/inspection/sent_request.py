"""The request that a round sent, rendered again from the log.

The log records what the model had read (`rendered`), the fold renders the same text again, and the decision has the rest:
see `Sent`. The recorded digest of the sent bytes shows whether the rendered bytes are equal.
Source: docs/concepts/context.md#the-recorded-request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from stepline.context.announce import announce, render_pool
from stepline.context.media import newest_media
from stepline.context.request import Rendered, digest_request, digest_whole_request, render, spell_files
from stepline.errors import NotFoundError
from stepline.log.journal import Journal
from stepline.log.spill import fetch_body
from stepline.model.batch import Batch, home_lane
from stepline.model.decision import RoundFacts, Sent
from stepline.model.entry import Decided
from stepline.model.ids import Lane
from stepline.model.path import out_key
from stepline.model.version import ContextLayout
from stepline.ports.artifacts import Artifacts
from stepline.ports.model import DECISION_ROLE, Media, ModelRequest, Part
from stepline.timeline.fold import Timeline

PartRole: TypeAlias = Literal["system", "timeline", "file", "sources", "announce", "journal"]
"""The role of a part; `journal` is the text of the layout of that name."""

_Parts: TypeAlias = tuple[Rendered, list[PartRole], list[PartRole]]
"""A rendered request, and the roles of its texts before and after its files."""


@dataclass(frozen=True, kw_only=True)
class SentRequest:
    """A request as it was sent: the timeline that it shows, and the decision that answered it.

    The `request` holds no bytes of files. It is `equal` if its digest is that of the sent bytes.
    """

    decided: Batch
    decision: Decided
    sent: Sent
    timeline: Timeline
    request: ModelRequest
    roles: tuple[PartRole, ...]
    """The role of each part, first those of the system part."""

    @property
    def equal(self) -> bool:
        """True if these are the bytes that were sent; false if the current release renders differently."""
        digest = digest_request if self.sent.carries_digest else digest_whole_request
        return digest(self.request).startswith(self.sent.sha256)


def find_decision(batch: Batch) -> tuple[Decided, Sent]:
    """Return the decision of a batch and the facts about its request. Raises NotFoundError `round_not_found`."""
    for entry in batch.entries:
        if isinstance(entry, Decided) and entry.sent is not None:
            return entry, entry.sent
    raise NotFoundError(f"batch {batch.n} decides no round", code="round_not_found")


def render_sent(timeline: Timeline, decided: Batch, *, system: str, staged: bytes = b"") -> SentRequest:
    """Return the request of a decision; `timeline` ends with the newest batch that the model had seen.

    `staged` are the stored contents that it showed in full, in the layout `journal`. Raises NotFoundError
    `round_not_found`.
    """
    decision, sent = find_decision(decided)
    rendered, texts, tail = _RENDERED[sent.layout](timeline, decision, sent, system, staged)
    request = spell_files(
        ModelRequest(
            role=DECISION_ROLE,
            system=rendered.system,
            content=rendered.content,
            max_tokens=sent.max_tokens,
            temperature=sent.temperature,
            declined=timeline.state.declined > 0,
        )
    )
    systems: list[PartRole] = ["system"] * len(request.system)
    files: list[PartRole] = ["file"] * (len(request.content) - len(texts) - len(tail))
    return SentRequest(
        decided=decided,
        decision=decision,
        sent=sent,
        timeline=timeline,
        request=request,
        roles=(*systems, *texts, *files, *tail),
    )


def _render_timeline(
    timeline: Timeline, decision: Decided, sent: Sent, system: str, _staged: bytes
) -> _Parts:
    files = [
        Media(path=one.path, body=one.body, tokens=one.tokens, why=why)
        for one, why in zip(newest_media(timeline.media), sent.files, strict=False)
    ]
    sources = render_pool(timeline.sources, timeline.cited)
    announced = sent.announce or announce(timeline, _facts(decision, sent))
    rendered = render(
        timeline,
        system=system,
        minimum_tokens=sent.minimum_tokens,
        media=files,
        sources=sources,
        announce=announced,
    )
    volatile: list[tuple[PartRole, str]] = [("sources", sources), ("announce", announced)]
    tail = [role for role, text in volatile if text]
    texts: list[PartRole] = ["timeline"] * (len(rendered.content) - len(files) - len(tail))
    return rendered, texts, tail


def _render_journal(timeline: Timeline, decision: Decided, sent: Sent, system: str, staged: bytes) -> _Parts:
    from stepline.inspection.sent_journal import render_sent_journal  # noqa: PLC0415 - most requests have the other layout

    facts = _facts(decision, sent)
    rendered = render_sent_journal(timeline, sent, facts, system=system, staged=staged)
    announced = sum(isinstance(part, Part) for part in rendered.content) - 1
    texts: list[PartRole] = ["journal"]
    texts += ["announce"] * announced
    return rendered, texts, []


def _facts(decision: Decided, sent: Sent) -> RoundFacts:
    return sent.restore_facts(started_at=decision.started_at, iteration=decision.iteration)


_RENDERED: Final[Mapping[ContextLayout, Callable[[Timeline, Decided, Sent, str, bytes], _Parts]]] = {
    "timeline": _render_timeline,
    "journal": _render_journal,
}


def name_system(batches: Iterable[Batch]) -> tuple[str, str]:
    """Return the newest system part that these batches name: the turn that it is stored under, and its SHA-256.

    Both are "" if they name none.
    """
    found = ("", "")
    for batch in batches:
        for entry in batch.entries:
            if isinstance(entry, Decided) and entry.system:
                found = (batch.state.turn, entry.system)
    return found


def read_upto(journal: Journal, n: int) -> list[Batch]:
    """Return the log up to batch `n`, which decides a round. Raises NotFoundError `round_not_found`, DependencyError."""
    batches = journal.since(0, upto=n, consistent=True)
    if len(batches) < n or n < 1:
        raise NotFoundError(f"this conversation has no batch {n}", code="round_not_found")
    find_decision(batches[-1])
    return batches


def read_staged(artifacts: Artifacts, lane: Lane, decided: Batch) -> bytes:
    """Return the contents that the request of a decision showed in full; b"" if none are stored. Raises DependencyError."""
    _, sent = find_decision(decided)
    if not sent.staged:
        return b""
    return fetch_body(artifacts, out_key(lane, decided.state.turn, sent.staged), sent.staged)


def read_system(artifacts: Artifacts, lane: Lane, batches: Iterable[Batch]) -> str:
    """Return the text of the newest system part that these batches name; "" if they name none. Raises DependencyError."""
    known = list(batches)
    turn, sha256 = name_system(known)
    if not sha256:
        return ""
    named = next(batch.n for batch in reversed(known) if name_system([batch])[1])
    body = fetch_body(artifacts, out_key(home_lane(lane, known, named), turn, sha256), sha256)
    return body.decode("utf-8", "surrogatepass")
