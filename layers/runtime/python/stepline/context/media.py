"""Pictures and documents of a request: they follow its last cache mark, so removing them keeps the cached prefix.

The timeline has a text instead of each, which never changes. A request has the newest ones after the
timeline, each below a line with its path; the bytes and the line are added when the request is sent.
Source: docs/concepts/context.md#pictures-and-documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepline.context.rules import ContextRules
from stepline.model.usage import BYTES_PER_TOKEN
from stepline.ports.model import Content, Media, Part
from stepline.rendering.piece import Attached
from stepline.rendering.quote import inline

NEWEST: Final = 2
"""Maximum pictures and documents of a request."""
REQUEST_BYTES: Final = 13 * 1024 * 1024
"""Maximum total bytes of them: a request may have 20 MB on Bedrock, and base64 takes four bytes for three."""
SHARE: Final = 0.5
"""Maximum share of a request's tokens for them."""


def newest_media(media: Sequence[Attached]) -> list[Attached]:
    """Return the newest attached files, each content once, oldest first."""
    found: dict[str, Attached] = {}
    for one in reversed(media):
        found.setdefault(one.body.sha256, one)
        if len(found) == NEWEST:
            break
    return list(found.values())[::-1]


def choose_media(media: Sequence[Attached], rules: ContextRules) -> list[Attached]:
    """Return the newest files that fit in a request, oldest first; the newest has precedence."""
    tokens, size, chosen = int(rules.budget * SHARE), REQUEST_BYTES, []
    for one in reversed(newest_media(media)):
        tokens, size = tokens - one.tokens, size - one.body.size_bytes
        if tokens < 0 or size < 0:
            break
        chosen.append(one)
    return chosen[::-1]


def render_media(media: Sequence[Attached], rules: ContextRules) -> Iterator[Media]:
    """Yield the newest files; a file without room is marked as such."""
    chosen = choose_media(media, rules)
    for one in newest_media(media):
        why = "" if one in chosen else "a newer one leaves no room for it; read it alone"
        yield Media(path=one.path, body=one.body, tokens=0 if why else one.tokens, why=why)


def render_file(part: Content) -> tuple[Content, ...]:
    """Return a file below its line, or the line instead of a file that is not sent; a text is returned unchanged."""
    if isinstance(part, Part):
        return (part,)
    if part.why:
        return (Part(text=f"[NOT ATTACHED] {inline(part.path)} | {part.why}\n"),)
    return Part(text=f"[ATTACHED] {inline(part.path)} | {part.body.mime}\n"), part


def media_bytes(media: Sequence[Attached], rules: ContextRules) -> int:
    """Return the bytes of text that would cost as much as the pictures and documents of the next request."""
    return sum(tokens_to_bytes(one.tokens) for one in choose_media(media, rules))


def tokens_to_bytes(tokens: int) -> int:
    """Return the bytes of text that cost `tokens`."""
    return round(tokens * BYTES_PER_TOKEN)
