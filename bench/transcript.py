"""The same conversation as a plain transcript with automatic caching, compacted when its window is full.

Messages as in a native tool-calling transcript: the prompt, then for each round the assistant's text and
calls and the results, a content block each, and the answer. One mark moves with the end. A call and a result
count as their JSON, with a result's text unchanged; there are no headers, paths and times.

When a request would not fit into the window, the model is asked first for a summary of everything, at the end
of the same prefix, so that its cache is read. The next request has the system prompt, the summary, the newest
rounds up to a third of the window, and the open turn's message. `summary alone` keeps no round, as the
provider's own compaction does. What is lost then is looked up again as often as for us: in three tool rounds
of twenty.

Source: platform.claude.com, Compaction ("all content blocks before the compaction block are dropped").
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from bench.purse import Bill
from bench.workload import RECOVERY_SHARE, Call, Script, ToolRound, Turn, make_summary
from stepline.local.scripted.cache import PromptCache
from stepline.local.scripted.messages_request import TTL_S, Prompt, PromptBlock, count_tokens

MODEL: Final = "claude-sonnet-5-5"
TOOL: Final = "bench.look"


@dataclass(frozen=True)
class Window:
    """When a transcript is compacted, in tokens, and the share of them that its newest rounds keep."""

    tokens: float = math.inf
    kept: float = 1 / 3


PEERS: Final[dict[str, Window]] = {
    "180k": Window(180_000),
    "120k": Window(120_000),
    "never": Window(),
    "180k, summary alone": Window(180_000, kept=0),
}
"""The peers, by the tokens at which they compact: a window of 200,000 without the answer, a common setting, none."""

AGAIN: Final = "I need that again."
ASK: Final = "Summarise the conversation so far, so that it can be continued from the summary alone."


@dataclass(frozen=True)
class Billed:
    """The result of one transcript. `in_sight` are the planted facts that its last request has."""

    bill: Bill
    compactions: int
    recoveries: int
    in_sight: int


def bill_transcript(script: Script, *, system: str, request_s: float, window: Window) -> Billed:
    """Return the conversation's bill; a request takes `request_s` with its tools."""
    peer = _Transcript(system, request_s, window)
    draw = random.Random(f"recovery {script.seed}")
    for turn in script.turns:
        peer.begin(turn)
        for step in turn.rounds:
            if lost := peer.miss(draw):
                peer.take(_round(ToolRound(thinking=AGAIN, notes="", calls=(lost,))), extra=True)
            peer.take(_round(step))
            peer.known += step.calls
        peer.take([_block(turn.answer)])
    facts = sum(peer.sees(script.calls[name]) for name in script.facts)
    return Billed(bill=peer.bill, compactions=peer.compactions, recoveries=peer.recoveries, in_sight=facts)


class _Transcript:
    """The messages of one conversation, and the cache that they are read from."""

    def __init__(self, system: str, request_s: float, window: Window) -> None:
        self.known: list[Call] = []
        self.bill = Bill()
        self.compactions = self.recoveries = 0
        self._steps = [[_block(system)]]
        self._said = self._steps[0]
        self._now_s = 0.0
        self._request_s = request_s
        self._window = window
        self._cache = PromptCache(now_s=lambda: self._now_s)

    def begin(self, turn: Turn) -> None:
        """Take the user's message."""
        self._now_s += turn.gap_s
        self._said = [_block(turn.prompt)]
        self._steps.append(self._said)

    def sees(self, call: Call) -> bool:
        """Return True if a call's result is in sight."""
        return any(block.text.endswith(call.text) for step in self._steps for block in step)

    def miss(self, draw: random.Random) -> Call | None:
        """Return an earlier call whose result is out of sight, if the script wants one now."""
        if draw.random() >= RECOVERY_SHARE:
            return None
        lost = [call for call in self.known if not self.sees(call)]
        return draw.choice(lost) if lost else None

    def take(self, answered: Sequence[PromptBlock], *, extra: bool = False) -> None:
        """Ask, after a compaction if it is due, and add the answer and its results; an `extra` answer is paid."""
        if sum(map(_tokens, self._steps)) > self._window.tokens:
            self._compact()
        self._ask(output=_tokens(answered[:-1]) if extra else 0)
        self.recoveries += extra
        self._steps.append(list(answered))

    def _ask(self, *, output: int = 0) -> None:
        blocks = [block for step in self._steps for block in step]
        marked = (*blocks[:-1], replace(blocks[-1], ttl_s=TTL_S["5m"]))
        prompt = Prompt(
            model=MODEL, max_tokens=1, stream=True, blocks=marked, system="", messages=(("user", ""),)
        )
        use = self._cache.look(prompt, workspace="peer")
        self._cache.commit(use)
        self.bill.add(use, output=output)
        self._now_s += self._request_s

    def _compact(self) -> None:
        """Ask for a summary, and go on with it, the newest rounds and the open turn's message."""
        summary, steps = [_block(make_summary())], self._steps[1:]
        self._steps.append([_block(ASK)])
        self._ask(output=_tokens(summary))
        room, kept = self._window.tokens * self._window.kept, len(steps)
        while kept and _tokens(steps[kept - 1]) <= room:
            kept -= 1
            room -= _tokens(steps[kept])
        said = [] if any(step is self._said for step in steps[kept:]) else [self._said]
        self._steps = [self._steps[0], summary, *said, *steps[kept:]]
        self.compactions += 1


def _tokens(blocks: Sequence[PromptBlock]) -> int:
    return sum(block.tokens for block in blocks)


def _round(step: ToolRound) -> list[PromptBlock]:
    blocks = [_block(f"{step.thinking}\n{step.notes}")]
    names = {call.name: f"toolu_{hashlib.sha256(call.name.encode()).hexdigest()[:24]}" for call in step.calls}
    for call in step.calls:
        asked = {"type": "tool_use", "id": names[call.name], "name": TOOL, "input": {"query": call.name}}
        blocks.append(_block(json.dumps(asked)))
    for call in step.calls:
        frame = {"type": "tool_result", "tool_use_id": names[call.name], "content": ""}
        blocks.append(_block(f"{json.dumps(frame)}{call.text}"))
    return blocks


def _block(text: str) -> PromptBlock:
    return PromptBlock(identity=text, text=text, tokens=count_tokens(text))
