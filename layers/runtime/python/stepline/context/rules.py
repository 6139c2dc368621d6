"""The limits of a conversation's context, and the editable tail.

Source: docs/concepts/context.md#limits.

The editable tail is the newest pieces, which can be hidden without invalidating much of the cache. Source:
docs/concepts/context.md#hiding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepline.model.base import Value

if TYPE_CHECKING:
    from stepline.rendering.piece import Piece


class ContextRules(Value):
    """Limits of the context. Tokens are estimates, times are seconds.

    A request may have `budget` tokens; a reduction continues until the request is at `target` of that.
    `output_tokens` are reserved for the answer and `margin` of the window for the error of estimates. A cache
    lives `ttl_s` after its last use (0: never reduce by time), and counts as expired `ttl_buffer_s` before
    that. The `keep_turns` newest turns remain turns and the `intact_turns` newest of them remain whole, including
    the open one; of the closed ones, the newest `intact_tokens` remain whole. A block may be hidden after the end of
    the round that is `offset_rounds` before the last one, if there are `min_rounds`, and at most
    `editable_tail_tokens` from the end. A provider caches no prefix below `cache_minimum_tokens`.

    While the cache lives, turns are pruned if that is paid back within `horizon_requests` (0: never), in
    conversations that have grown to `horizon_from` of the budget.
    """

    max_tokens: int = 80_000
    window_tokens: int = 200_000
    output_tokens: int = 20_000
    margin: float = 0.05
    target: float = 0.55
    ttl_s: float = 300.0
    ttl_buffer_s: float = 10.0
    keep_turns: int = 6
    intact_turns: int = 2
    intact_tokens: int = 6_000
    offset_rounds: int = 4
    min_rounds: int = 2
    editable_tail_tokens: int = 2_000
    cache_minimum_tokens: int = 512
    horizon_requests: float = 10.0
    horizon_from: float = 0.25

    @property
    def budget(self) -> int:
        """The maximum tokens of a request."""
        spare = int(self.window_tokens * (1 - self.margin)) - self.output_tokens
        return max(1, min(self.max_tokens, spare))

    @property
    def target_tokens(self) -> int:
        """The tokens that a reduction aims at."""
        return int(self.budget * self.target)


def pre_tail(pieces: Sequence[Piece], rules: ContextRules) -> int:
    """Return the index of the first piece that may be hidden.

    It follows the round that is `offset_rounds` before the last one. An unfinished round does not count, and
    with fewer than `min_rounds` everything may be hidden: 0.
    """
    last: dict[tuple[int, int], int] = {}
    settled = False
    for back, piece in enumerate(reversed(pieces), 1):
        if piece.kind == "end":
            settled = True
        if not (piece.round and piece.text):
            continue
        last.setdefault((piece.turn, piece.round), len(pieces) - back)
        if piece.kind == "round":
            if not settled:
                del last[piece.turn, piece.round]
            settled = True
            if len(last) > rules.offset_rounds:
                break
    ends = list(last.values())
    if len(ends) < max(2, rules.min_rounds):
        return 0
    return ends[min(rules.offset_rounds, len(ends) - 1)] + 1 if rules.offset_rounds else 0


def find_group(pieces: Sequence[Piece], path: str) -> list[int]:
    """Return the indexes of the visible pieces that the newest batch added at a path.

    `path` may be a view's own; then only that view counts.
    """
    newest = 0
    found: list[int] = []
    for back, piece in enumerate(reversed(pieces), 1):
        if path in (piece.path, piece.view) and piece.text:
            newest = newest or piece.n
            if piece.n != newest:
                break
            found.append(len(pieces) - back)
    return found[::-1]
