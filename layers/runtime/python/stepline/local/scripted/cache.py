"""A prompt cache by the provider's published rules.

- A mark writes one entry: the hash of the whole prefix that ends at the marked block, and no other.
- A read looks, from each mark backwards, at no more than 20 positions with the mark's own as the first, for an
  entry that an earlier request wrote. It finds prior writes, never mere equality.
- A prefix below the model's minimum is neither written nor an error.
- An entry lives 5 minutes or, on request, an hour; each use restarts its lifetime.
- An entry exists once the first response has begun, not before.
- A is the highest hit, B the highest one-hour mark after A, C the last mark: read A, write B-A for an hour and
  C-B for five minutes, and everything after C is plain input.
- Workspaces and models never share an entry.
Source: platform.claude.com, "Prompt caching".
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from stepline.local.scripted.messages_request import TTL_S, Prompt
from stepline.model.base import Value

LOOK_BACK: Final = 20
DEFAULT_MINIMUM: Final = 1024
# The first matching prefix wins, so a version precedes its family.
MINIMUM_TOKENS: Final = (
    ("claude-opus-4-8", 1024),
    ("claude-opus-4-7", 2048),
    ("claude-opus-4-6", 4096),
    ("claude-opus-4-5", 4096),
    ("claude-opus-4", 1024),
    ("claude-opus-5", 512),
    ("claude-sonnet-5-5", 512),
    ("claude-haiku-5-5", 512),
    ("claude-fable-5", 512),
    ("claude-mythos-5", 512),
    ("claude-mythos-preview", 2048),
    ("claude-haiku-4-5", 4096),
)


class CacheUse(Value):
    """The tokens that one request read, wrote and paid in full; the entries it will write and refresh."""

    read: int
    write_5m: int
    write_1h: int
    plain: int
    written: tuple[tuple[str, int], ...] = ()
    used: tuple[str, ...] = ()


class _Entry:
    def __init__(self, ttl_s: int, until_s: float) -> None:
        self.ttl_s = ttl_s
        self.until_s = until_s


class PromptCache:
    """All entries of all workspaces; safe for several threads."""

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        """Start empty, with a clock in seconds."""
        self._now_s = now_s
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def look(self, prompt: Prompt, *, workspace: str) -> CacheUse:
        """Return the cache use of a request now. Changes nothing; `commit` does."""
        keys = _prefix_keys(prompt, workspace)
        sums = list(accumulate(block.tokens for block in prompt.blocks))
        marks = [(n, block.ttl_s) for n, block in enumerate(prompt.blocks) if block.ttl_s is not None]
        minimum = minimum_tokens(prompt.model)
        with self._lock:
            hits = [hit for n, _ in marks if (hit := self._hit(keys, n)) is not None]
        a = sums[max(hits)] if hits else 0
        kept = [(sums[n], ttl_s, keys[n]) for n, ttl_s in marks if sums[n] >= minimum]
        b = max([a, *(total for total, ttl_s, _ in kept if ttl_s == TTL_S["1h"])])
        c = max([b, *(total for total, _, _ in kept)])
        return CacheUse(
            read=a,
            write_1h=b - a,
            write_5m=c - b,
            plain=prompt.tokens - c,
            written=tuple((key, ttl_s) for _, ttl_s, key in kept),
            used=tuple(keys[n] for n in hits),
        )

    def commit(self, use: CacheUse) -> None:
        """Write and refresh entries, as the response begins."""
        now_s = self._now_s()
        with self._lock:
            for key in use.used:
                if (entry := self._entries.get(key)) is not None:
                    entry.until_s = now_s + entry.ttl_s
            for key, ttl_s in use.written:
                old = self._entries.get(key)
                life_s = max(ttl_s, old.ttl_s) if old is not None and old.until_s > now_s else ttl_s
                self._entries[key] = _Entry(life_s, now_s + life_s)

    def _hit(self, keys: list[str], mark: int) -> int | None:
        now_s = self._now_s()
        for n in range(mark, max(-1, mark - LOOK_BACK), -1):
            entry = self._entries.get(keys[n])
            if entry is not None and entry.until_s > now_s:
                return n
        return None


def minimum_tokens(model: str) -> int:
    """Return the length of the shortest prefix that the provider caches for a model, in tokens."""
    name = model.rpartition("anthropic.")[2]
    return next((tokens for prefix, tokens in MINIMUM_TOKENS if name.startswith(prefix)), DEFAULT_MINIMUM)


def _prefix_keys(prompt: Prompt, workspace: str) -> list[str]:
    digest = hashlib.sha256(f"{workspace}\0{prompt.model}".encode())
    keys = []
    for block in prompt.blocks:
        digest.update(b"\0" + block.identity.encode())
        keys.append(digest.copy().hexdigest())
    return keys
