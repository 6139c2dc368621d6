"""The least price of a recorded conversation: when to shorten what, chosen with its whole future known.

The choice is the one that pruning has. Before a turn's first request, closed turns up to one of them may become cards,
and the text after those may be shortened up to the end of any result; nothing is made longer again. Each form is the
one that ships, and what the rules promise to keep stays: the open turn, the newest `intact_tokens` of the one before
it, and `keep_turns` turns as turns. A cache has marks anywhere. The dynamic program tries every sequence of choices.

Later in a turn no choice is better than at its start: what may be shortened is the same, and more text follows it.
Nothing is paid for the messages that inform the model of a pruning. Reads and their answers are those that were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Final

from msgspec.structs import replace

from bench.actor import LANE, Played
from bench.purse import DOLLARS_PER_TOKEN, LIFE_S, OUTPUT, PLAIN, READ, WRITE_5M
from bench.workload import BYTES_PER_TOKEN
from stepline.context.rules import ContextRules
from stepline.model.entry import Compacted, Compacting, Decided, Pruned
from stepline.rendering.piece import Piece, estimate_bytes, text_bytes
from stepline.rendering.reduce import prune
from stepline.rendering.text_form import STANDARD
from stepline.timeline.fold import Timeline

ALL: Final = 1_000_000


@dataclass(frozen=True)
class Cut:
    """A place up to which text is shortened: `head` tokens of its turn's shortened text, before `tail` whole ones."""

    turn: int
    head: float
    tail: float


@dataclass(frozen=True)
class Visit:
    """One turn: the tokens of its own text and of the uncached tail in each request, and whether it began without a cache."""

    own: tuple[float, ...]
    plain: float
    cold: bool


def least_dollars(played: Played, rules: ContextRules) -> float:
    """Return the least price of all requests of a conversation in caches of five minutes."""
    course = _Course(played, rules)
    spent, sent = [[0.0, *[math.inf] * (len(course.cuts) - 1)]], 0.0
    for number, visit in enumerate(course.visits, 1):
        spent = course.pay(spent, number, visit, sent)
        sent = visit.own[-1]
    return (min(map(min, spent)) + played.bill.output * OUTPUT) * DOLLARS_PER_TOKEN


class _Course:
    """The texts of a conversation in each form, and its requests."""

    def __init__(self, played: Played, rules: ContextRules) -> None:
        whole = Timeline.empty(LANE).extended(
            [
                replace(
                    batch,
                    entries=tuple(
                        one for one in batch.entries if not isinstance(one, Pruned | Compacting | Compacted)
                    ),
                )
                for batch in played.batches
            ]
        )
        turns = [list(own) for _, own in groupby(whole.pieces, key=lambda piece: piece.turn)]
        self.keep = rules.keep_turns
        self.cuts: list[Cut] = []
        self.first: list[int] = []
        self.last: list[int] = []
        for number, own in enumerate(turns, 1):
            self.first.append(len(self.cuts))
            self.cuts += _cuts(number, own, rules.intact_tokens)
            self.last.append(len(self.cuts) - 1)
        self.card = _sums([_tokens(_pruned(own, keep=0)) for own in turns])
        self.light = _sums([_tokens(_pruned(own)) for own in turns])
        self.whole = _sums([_tokens(own) for own in turns])
        self.visits = _visits(played, turns)
        self.system = played.requests[0].marked - self.visits[0].own[0]

    def pay(self, spent: list[list[float]], turn: int, visit: Visit, sent: float) -> list[list[float]]:
        """Return the least price after a turn for each number of cards and each cut; `spent` is the one before it.

        `sent` are the tokens that the last request had of its own turn.
        """
        cards_max, cut_max = max(0, turn - self.keep), self.last[turn - 2] if turn > 1 else 0
        anew, least = WRITE_5M - READ, [math.inf] * len(self.cuts)
        found = []
        for cards in range(cards_max + 1):
            before = spent[cards] if cards < len(spent) else [math.inf] * len(self.cuts)
            row, longer, best = [math.inf] * len(self.cuts), math.inf, math.inf
            for at in range(cut_max + 1):
                best = min(best, least[at])
                closed = self._before(turn, cards, at)
                stays = before[at] - anew * (self.system + self._before(turn - 1, cards, at) + sent)
                start = min(before[at], longer, best) if visit.cold else min(stays, longer, best)
                if at >= self.first[cards]:
                    row[at] = start + self._turn(visit, self.system + closed)
                longer = min(
                    longer,
                    before[at] if visit.cold else before[at] - anew * (self.system + self._light(cards, at)),
                )
            found.append(row)
            kept = 0.0 if visit.cold else anew * (self.system + self.card[cards])
            least = [min(one, other - kept) for one, other in zip(least, before, strict=True)]
        return found

    def _turn(self, visit: Visit, closed: float) -> float:
        """Return the price of a turn's requests as if the first one read nothing."""
        own, reads = visit.own, len(visit.own) - 1
        return WRITE_5M * (closed + own[-1]) + READ * (closed * reads + sum(own[:-1])) + PLAIN * visit.plain

    def _light(self, cards: int, at: int) -> float:
        cut = self.cuts[at]
        return self.card[cards] + self.light[cut.turn - 1] - self.light[cards] + cut.head

    def _before(self, turn: int, cards: int, at: int) -> float:
        """Return the tokens of the turns before one."""
        cut = self.cuts[at]
        if cut.turn >= turn:
            return self.card[cards] + self.light[turn - 1] - self.light[cards]
        return self._light(cards, at) + cut.tail + self.whole[turn - 1] - self.whole[cut.turn]


def _cuts(number: int, own: Sequence[Piece], intact_tokens: int) -> list[Cut]:
    """Return the places in a turn up to which it may be shortened while it is the newest closed one."""
    sizes = accumulate(piece.size for piece in reversed(own))
    aged = zip(reversed(own), sizes, strict=True)
    settled = next((piece.n for piece, size in aged if estimate_bytes(size) > intact_tokens), 0)
    ends = {settled, *(piece.n for piece in own if piece.kind == "result" and piece.n < settled)} - {0}
    found = [Cut(number, 0.0, _tokens(own))]
    for n in sorted(ends):
        made = _pruned(own, intact=1, settled=n)
        upto = next((at for at, piece in enumerate(made) if piece.n > n), len(made))
        found.append(Cut(number, _tokens(made[:upto]), _tokens(made[upto:])))
    return found


def _visits(played: Played, turns: Sequence[Sequence[Piece]]) -> list[Visit]:
    rendered = [
        batch.state.rendered
        for batch in played.batches
        for entry in batch.entries
        if isinstance(entry, Decided)
    ]
    found, until_s = [], 0.0
    asked = zip(played.requests, rendered, strict=True)
    for number, requests in groupby(asked, key=lambda one: one[0].turn):
        own = list(requests)
        found.append(
            Visit(
                own=tuple(_tokens(piece for piece in turns[number] if piece.n <= n) for _, n in own),
                plain=sum(request.plain for request, _ in own),
                cold=own[0][0].at_s >= until_s,
            )
        )
        until_s = own[-1][0].at_s + LIFE_S
    return found


def _pruned(own: Sequence[Piece], *, keep: int = ALL, intact: int = 0, settled: int = 0) -> list[Piece]:
    entry = Pruned(turn="", at="", cause="price", keep=keep, intact=intact, settled=settled)
    return prune(own, entry, own[0].turn, STANDARD)


def _tokens(pieces: Iterable[Piece]) -> float:
    return text_bytes(pieces) / BYTES_PER_TOKEN


def _sums(tokens: Iterable[float]) -> list[float]:
    return [*accumulate(tokens, initial=0.0)]
