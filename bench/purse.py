"""The cost of requests, and their minimal cost: prices as multiples of a plain input token."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from typing import Final

from bench.workload import BYTES_PER_TOKEN
from stepline.local.scripted.cache import CacheUse
from stepline.local.scripted.messages_request import Prompt

PLAIN: Final = 1.0
READ: Final = 0.1
WRITE_5M: Final = 1.25
WRITE_1H: Final = 2.0
OUTPUT: Final = 5.0
DOLLARS_PER_TOKEN: Final = 3.0 / 1_000_000
LIFE_S: Final = 300.0


@dataclass
class Bill:
    """Tokens by class, over many requests."""

    read: float = 0
    write_5m: float = 0
    write_1h: float = 0
    plain: float = 0
    output: float = 0
    requests: int = 0

    def add(self, use: CacheUse, *, output: int = 0) -> None:
        """Count one request; `output` are tokens of an answer that would not have been needed otherwise."""
        self.read += use.read
        self.write_5m += use.write_5m
        self.write_1h += use.write_1h
        self.plain += use.plain
        self.output += output
        self.requests += 1

    def merge(self, other: Bill) -> None:
        """Add another bill's counts."""
        self.read += other.read
        self.write_5m += other.write_5m
        self.write_1h += other.write_1h
        self.plain += other.plain
        self.output += other.output
        self.requests += other.requests

    @property
    def prompt(self) -> float:
        """Tokens of all requests."""
        return self.read + self.write_5m + self.write_1h + self.plain

    @property
    def dollars(self) -> float:
        """The price, at $3 for a million plain tokens."""
        counted = (
            (self.read, READ),
            (self.write_5m, WRITE_5M),
            (self.write_1h, WRITE_1H),
            (self.plain, PLAIN),
            (self.output, OUTPUT),
        )
        return sum(tokens * price for tokens, price in counted) * DOLLARS_PER_TOKEN

    @property
    def cached_dollars(self) -> float:
        """The price of the part before the last marks."""
        return self.dollars - (self.plain * PLAIN + self.output * OUTPUT) * DOLLARS_PER_TOKEN

    @property
    def uncached_dollars(self) -> float:
        """The price of the same tokens without any cache."""
        return (self.prompt * PLAIN + self.output * OUTPUT) * DOLLARS_PER_TOKEN

    @property
    def read_share(self) -> float:
        """The share of tokens read from the cache."""
        return self.read / self.prompt if self.prompt else 0.0


class Ideal:
    """A cache with marks anywhere and unlimited look-back: the minimum for the text of the requests.

    Of each request, the longest prefix shared with a request of the last five minutes is read, byte by byte;
    the rest up to its last mark is written, and the text after that is paid in full.
    """

    def __init__(self) -> None:
        self.bill = Bill()
        self._alive: deque[tuple[float, bytes]] = deque()

    def take(self, prompt: Prompt, now_s: float) -> None:
        """Account for one request."""
        marks = [n for n, block in enumerate(prompt.blocks) if block.ttl_s is not None]
        marked = prompt.blocks[: marks[-1] + 1] if marks else ()
        text = b"".join([block.text.encode() for block in marked])
        while self._alive and now_s - self._alive[0][0] >= LIFE_S:
            self._alive.popleft()
        read = max((common_bytes(text, other) for _, other in self._alive), default=0)
        plain = sum(block.tokens for block in prompt.blocks[len(marked) :])
        self.bill.read += read / BYTES_PER_TOKEN
        self.bill.write_5m += (len(text) - read) / BYTES_PER_TOKEN
        self.bill.plain += plain
        self.bill.requests += 1
        self._alive.append((now_s, text))


OWN_LEAST: Final = 1024
OWN_STEP: Final = 128


class OwnCache:
    """A provider that caches by itself, as OpenAI does: marks have no effect, and a write costs nothing.

    Of each request, the longest prefix shared with a request of the last five minutes is read, from 1,024 tokens on, in
    steps of 128; the rest is paid in full. Source: developers.openai.com, "Prompt caching".
    """

    def __init__(self) -> None:
        self.bill = Bill()
        self._alive: deque[tuple[float, bytes]] = deque()

    def take(self, prompt: Prompt, now_s: float) -> None:
        """Account for one request."""
        text = b"".join([block.text.encode() for block in prompt.blocks])
        while self._alive and now_s - self._alive[0][0] >= LIFE_S:
            self._alive.popleft()
        shared = max((common_bytes(text, other) for _, other in self._alive), default=0) / BYTES_PER_TOKEN
        read = shared // OWN_STEP * OWN_STEP if shared >= OWN_LEAST else 0.0
        self.bill.read += read
        self.bill.plain += len(text) / BYTES_PER_TOKEN - read
        self.bill.requests += 1
        self._alive.append((now_s, text))


def common_bytes(one: bytes, other: bytes) -> int:
    """Return the length of the longest common prefix."""
    most = min(len(one), len(other))
    if one.startswith(other) or other.startswith(one):
        return most
    left, right = memoryview(one), memoryview(other)
    return bisect_left(range(1, most + 1), True, key=lambda size: left[:size] != right[:size])
