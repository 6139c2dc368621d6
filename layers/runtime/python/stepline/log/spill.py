"""Spill: move a batch's largest strings or lists to the artifact store, and restore them by JSON pointer.

Bodies are stored first and are named by their content, so a crash in between leaves an unused body, never a missing
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from stepline.errors import DependencyError, InputError, LimitError, NotFoundError, SteplineError
from stepline.model.batch import (
    BATCH_DEPTH_MAX,
    BATCH_MAX_BYTES,
    IMPORT,
    STATE_MAX_BYTES,
    Batch,
    Spill,
    encode_batch,
    without_depths,
)
from stepline.model.entry import Entry
from stepline.model.ids import Lane
from stepline.ports.artifacts import Artifacts

SPILL_MIN_BYTES = 512
"""Strings that are smaller as JSON stay in the batch: a reference has about half this size."""


LOST_BODY_CODES: Final = frozenset({"body_missing", "body_mismatch", "commit_missing"})
"""Codes of stored objects that are gone or damaged: no retry brings them back."""

INCOMPLETE: Final = "record_incomplete"
"""The code of a record whose batches or texts are gone."""
_GONE: Final = "body_missing"
"""The code of a stored text that does not exist: in a turn a later try may find it, in a record none will."""

FRAME_BYTES = 16
"""JSON around a spilled value: its comma, the placeholder, and its share of the `spilled` list."""


@contextmanager
def readable(place: str) -> Iterator[None]:
    """Convert the error of a missing text into InputError `record_incomplete`, with its place."""
    try:
        yield
    except SteplineError as error:
        if error.retryable and error.reason != _GONE:
            raise
        raise InputError(
            f"{place}: a text of the record is gone from the store ({error.reason})", code=INCOMPLETE
        ) from error


class _Leaf(NamedTuple):
    size: int
    at: str
    text: str
    is_json: bool = False


def spill(artifacts: Artifacts, lane: Lane, batch: Batch, *, limit_bytes: int = BATCH_MAX_BYTES) -> Batch:
    """Return the batch of `plan_spill` after storing its bodies. Raises LimitError, DependencyError."""
    small, bodies = plan_spill(lane, batch, limit_bytes=limit_bytes)
    for piece, body in zip(small.spilled, bodies, strict=True):
        artifacts.put(piece.key, body, mime="application/json" if piece.json else "text/plain; charset=utf-8")
    return small


def plan_spill(
    lane: Lane, batch: Batch, *, limit_bytes: int = BATCH_MAX_BYTES
) -> tuple[Batch, tuple[bytes, ...]]:
    """Return the batch without its largest strings, in at most `limit_bytes`, and their bodies as in `spilled`.

    If it has too many small strings for that, whole lists of objects are spilled as well.

    Raises:
        LimitError: `batch_too_large`: the rest still exceeds the limit; `state_too_large`.
    """
    state_bytes = len(msgspec.json.encode(batch.state))
    if state_bytes > STATE_MAX_BYTES:
        raise LimitError("the state outgrew its limit", code="state_too_large", size_bytes=state_bytes)
    size = len(encode_batch(batch))
    if size <= limit_bytes:
        return batch, ()
    tree = _tree(batch)
    strings, lists = _leaves(tree, ""), _lists(tree)
    small = _without(lane, batch, strings, limit_bytes=limit_bytes)
    if small is None:
        within = tuple(f"{leaf.at}/" for leaf in lists)
        outside = [leaf for leaf in strings if not leaf.at.startswith(within)]
        small = _without(lane, batch, lists + outside, limit_bytes=limit_bytes)
    if small is not None:
        return small
    raise LimitError("a batch cannot be made small enough", code="batch_too_large", size_bytes=size)


def _without(
    lane: Lane, batch: Batch, leaves: list[_Leaf], *, limit_bytes: int
) -> tuple[Batch, tuple[bytes, ...]] | None:
    """Return the batch with just enough leaves spilled, largest first; None if all of them are not enough."""
    size, pieces, bodies = len(encode_batch(batch)) + FRAME_BYTES, [], []
    for leaf in sorted(leaves, reverse=True):
        body = leaf.text.encode()
        digest = hashlib.sha256(body).hexdigest()
        key = body_key(lane, batch, digest)
        pieces.append(Spill(at=leaf.at, key=key, sha256=digest, size_bytes=len(body), json=leaf.is_json))
        bodies.append(body)
        size += len(msgspec.json.encode(pieces[-1])) - leaf.size + FRAME_BYTES
        if size <= limit_bytes:
            break
    else:
        return None
    tree = _tree(batch)
    for piece in pieces:
        _set(tree, piece.at, [] if piece.json else "")
    return _rebuilt(batch, tree, pieces), tuple(bodies)


def hydrate(artifacts: Artifacts, batch: Batch) -> Batch:
    """Return the batch with every spilled value restored. Raises DependencyError."""
    if not batch.spilled:
        return batch
    tree = _tree(batch)
    for piece in batch.spilled:
        if piece.at.count("/") >= BATCH_DEPTH_MAX:
            continue  # it was in an unreadable part
        body = fetch_body(artifacts, piece.key, piece.sha256)
        _set(tree, piece.at, msgspec.json.decode(without_depths(body)) if piece.json else body.decode())
    return _rebuilt(batch, tree, [])


def fetch_body(artifacts: Artifacts, key: str, sha256: str) -> bytes:
    """Return a body that the log names. Raises DependencyError `body_missing`, `body_mismatch`."""
    try:
        body = artifacts.get(key)
    except NotFoundError as error:
        # Not passed on as `not_found`: a client would read it as a missing conversation.
        raise DependencyError("a stored body is missing", code="body_missing", key=key) from error
    if hashlib.sha256(body).hexdigest() != sha256:
        raise DependencyError("a stored body is not what the log names", code="body_mismatch", key=key)
    return body


def stream_body(artifacts: Artifacts, key: str, sha256: str) -> Iterator[bytes]:
    """Yield a body that the log names in pieces; check it at its end. Raises the errors of `fetch_body`."""
    whole = hashlib.sha256()
    try:
        for piece in artifacts.stream(key):
            whole.update(piece)
            yield piece
    except NotFoundError as error:
        raise DependencyError("a stored body is missing", code="body_missing", key=key) from error
    if whole.hexdigest() != sha256:
        raise DependencyError("a stored body is not what the log names", code="body_mismatch", key=key)


def body_key(lane: Lane, batch: Batch, digest: str) -> str:
    """Return the key of a spilled string: class first, so that a role can be scoped to it."""
    kind = "att" if batch.step in ("admit", IMPORT) else "out"
    return f"{kind}/{lane.prefix()}/{batch.state.turn or 'idle'}/{digest}"


def _leaves(node: Any, at: str) -> list[_Leaf]:
    if isinstance(node, str):
        size = len(msgspec.json.encode(node))
        return [_Leaf(size, at, node)] if size >= SPILL_MIN_BYTES else []
    if isinstance(node, dict):
        pairs = [(str(key).replace("~", "~0").replace("/", "~1"), child) for key, child in node.items()]
    elif isinstance(node, list):
        pairs = [(str(index), child) for index, child in enumerate(node)]
    else:
        return []
    return [leaf for key, child in pairs for leaf in _leaves(child, f"{at}/{key}")]


def _lists(tree: list[dict[str, Any]]) -> list[_Leaf]:
    """Return the entries' lists of objects, as JSON."""
    found = []
    for index, entry in enumerate(tree):
        for name, value in entry.items():
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                text = msgspec.json.encode(value).decode()
                found.append(_Leaf(len(text), f"/{index}/{name}", text, is_json=True))
    return found


def _set(tree: Any, at: str, value: Any) -> None:
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in at.split("/")[1:]]
    node = tree
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value


def _rebuilt(batch: Batch, tree: Any, spilled: list[Spill]) -> Batch:
    entries = msgspec.convert(tree, type=tuple[Entry, ...])
    return msgspec.structs.replace(batch, entries=entries, spilled=tuple(spilled))


def _tree(batch: Batch) -> Any:
    return msgspec.json.decode(msgspec.json.encode(batch.entries))
