"""The model's request: system, timeline, pictures, announce, with cache marks where they save tokens.

The next request begins with the same parts up to each mark, byte for byte and part for part, because a provider
caches whole prefixes of parts. The end of the last request is always marked again, so a cache finds it without looking
back. Parts that change every round come after the last mark.
Source: docs/concepts/context.md#marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from stepline.context.media import render_file
from stepline.model.base import Value
from stepline.model.usage import BYTES_PER_TOKEN
from stepline.ports.model import Content, Media, ModelRequest, Part, digest_texts
from stepline.rendering.piece import byte_length, estimate_bytes
from stepline.timeline.fold import Timeline

MARKS_MAX: Final = 4
"""The providers' limit: one for the system part, three for the timeline."""


class Rendered(Value):
    """The parts of one request."""

    system: tuple[Part, ...]
    content: tuple[Content, ...]


def render(
    timeline: Timeline,
    *,
    system: str,
    announce: str = "",
    sources: str = "",
    media: Iterable[Content] = (),
    minimum_tokens: int = 0,
) -> Rendered:
    """Return the parts of a request; `media`, `sources` and `announce` are sent without a mark, if not empty.

    A provider caches no prefix below `minimum_tokens`.
    """
    volatile = (Part(text=text) for text in (sources, announce) if text)
    size = byte_length(system)
    return Rendered(
        system=(Part(text=system, cache=estimate_bytes(size) >= minimum_tokens),),
        content=(
            *render_timeline(timeline, spent_bytes=size, minimum_tokens=minimum_tokens),
            *media,
            *volatile,
        ),
    )


def render_timeline(timeline: Timeline, *, spent_bytes: int = 0, minimum_tokens: int = 0) -> tuple[Part, ...]:
    """Return the timeline's parts, with marks after the steady text or the previous turn, the previous request, and the end.

    A prefix that is surely below the `minimum_tokens` that a provider caches gets no mark;
    `spent_bytes` precede the timeline.
    """
    parts = list(timeline.parts.sealed)
    if loose := "".join(
        [piece.text for piece in timeline.pieces[timeline.parts.ends[-1] if timeline.parts.ends else 0 :]]
    ):
        parts.append(Part(text=loose))
    least = _parts_below(parts, minimum_tokens * BYTES_PER_TOKEN - spent_bytes)
    for end in {timeline.parts.fixed_part, timeline.parts.seen_part, len(parts)}:
        if end > least:
            parts[end - 1] = parts[end - 1].with_mark(cache=True)
    return tuple(parts)


def _parts_below(parts: Sequence[Part], size: float) -> int:
    """Return how many leading parts have less than `size` bytes together."""
    for count, part in enumerate(parts):
        size -= len(part.raw)
        if size <= 0:
            return count
    return len(parts)


def has_files(request: ModelRequest) -> bool:
    """Return True if a request has pictures or documents; a long one has thousands of texts."""
    return Media in map(type, request.content)


def locate_files(request: ModelRequest) -> list[tuple[int, Media]]:
    """Return the pictures and documents of a request, each with its position in the content."""
    if not has_files(request):
        return []
    return [(at, part) for at, part in enumerate(request.content) if isinstance(part, Media)]


def spell_files(request: ModelRequest) -> ModelRequest:
    """Return the request with a line above each of its files, and instead of each file that is not sent."""
    if not has_files(request):
        return request
    return replace(request, content=tuple([one for part in request.content for one in render_file(part)]))


def digest_request(request: ModelRequest) -> str:
    """Return the SHA-256 of a request as hex digits: of the bytes and marks of its parts, and of the limits of the answer.

    The texts count by the digest that their parts carry on, so those of earlier requests are not hashed again. A system
    part and a file count by the digest of their content. The role does not count.
    """
    texts = [part for part in request.content if type(part) is Part]
    lines = [
        f"{request.max_tokens} {request.temperature} {request.declined}",
        *[f"system {digest_system(own.text)} {own.cache}" for own in request.system],
        f"texts {len(texts)} {digest_texts(texts).hex()}",
        *[f"mark {at}" for at, part in enumerate(texts) if part.cache],
        *[f"file {at} {file.body.sha256} {file.body.mime}" for at, file in locate_files(request)],
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def digest_whole_request(request: ModelRequest) -> str:
    """Return the SHA-256 that decisions record without `digest_request`: of all texts and marks in a row, as hex digits."""
    digest = hashlib.sha256(f"{request.max_tokens} {request.temperature} {request.declined}\n".encode())
    for own in request.system:
        digest.update(f"system {digest_system(own.text)} {own.cache}\n".encode())
    for part in request.content:
        if isinstance(part, Part):
            text = part.raw
            digest.update(b"text %d %d\n" % (len(text), part.cache))
            digest.update(text)
        else:
            digest.update(f"file {part.body.sha256} {part.body.mime}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=8)
def digest_system(text: str) -> str:
    """Return the SHA-256 of a system part as hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
