"""Memory: facts found again after a long conversation was compacted, and the cost of a search.

The loop itself runs 200 turns in a small context, so that their beginning is compacted away several times. Each fifth turn
has a fact: in the user's message, in the midst of an answer, or in a note. A fact is found if its turn is among the first
five of the hits, and the path of the turn's best hit leads to a text that has the fact, byte for byte. The peers are the
two lists that are fused, each alone.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.planted import AROUND, ASKED, FACTS, THEMES
from bench.row import MeasureError, Row
from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex, MemoryManifest, prefix
from stepline.adapters.embedded.packed_rows import Packed, decode_packed
from stepline.adapters.embedded.ranking import rank
from stepline.bootstrap.memory_wiring import in_memory
from stepline.log.bindings import Ports
from stepline.model.entry import Compacted
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import MemoryQuery
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from tests.support.conversation import LANE, USER
from tests.support.generation import answered, called
from tests.support.small_context import SmallContext

TURNS: Final = 200
EVERY: Final = 5
FIRST: Final = 5
CONTEXT_TOKENS: Final = 12_000
COMPACTIONS: Final = 3
FOUND: Final = 36
ROWS: Final = 10_000
SEARCHES: Final = 100
NEW_PROCESSES: Final = 5
GOAL_MS: Final = {"warm_p50": 60.0, "warm_p95": 100.0, "cold_p50": 1_000.0, "cold_p95": 1_500.0}
SCOPE: Final = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=USER)
ROOT: Final = Path(__file__).resolve().parents[1]
LISTS: Final = {
    "hybrid": {},
    "bm25": {"meaning": False},
    "embeddings": {"words": False},
}
COLD_PROGRAM: Final = """\
import sys, time
from pathlib import Path
from stepline.bootstrap.memory_wiring import in_memory
from stepline.model.memory_row import MemoryScope
from stepline.ports.memory_index import MemoryQuery
from stepline.settings import Settings
ports = in_memory(Settings.from_env({}))
ports = ports.ports
for path in Path(sys.argv[1]).rglob("*"):
    if path.is_file():
        ports.artifacts.objects[str(path.relative_to(sys.argv[1]))] = path.read_bytes()
scope = MemoryScope(tenant=sys.argv[2], project=sys.argv[3], user=sys.argv[4])
begin = time.perf_counter()
from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
found = EmbeddedMemoryIndex(ports).search(MemoryQuery(scope=scope, text=sys.argv[5]))
assert found.hits
print((time.perf_counter() - begin) * 1000)
"""


def rows() -> list[Row]:
    """Return `memory_found_*`, `memory_search_ms_*` and `memory_read_bytes`."""
    return [*_found(), *_searched()]


def converse() -> SmallContext:
    """Have the conversation."""
    conversation = SmallContext(CONTEXT_TOKENS)
    for number in range(TURNS):
        theme, *said = THEMES[number * 7 % len(THEMES)]
        fact = FACTS[number // EVERY][0] if number % EVERY == EVERY // 2 else ""
        place = number // EVERY % 3 if fact else -1
        ask = ASKED[number // len(THEMES)].format(theme=theme)
        around = AROUND[number % len(AROUND)]
        if place == 2:
            note = {"path": "outputs/note.md", "channel": "internal", "content": f"[K] {fact}"}
            conversation.model.add(called("react.write", {**note, "scratchpad": True}))
        answer = around.format(said=said[number // len(THEMES)], fact=f"{fact} " if place == 0 else "")
        conversation.model.add(answered(answer))
        conversation.send(f"{ask} By the way: {fact}" if place == 1 else ask, id=f"m{number}")
        conversation.run()
        conversation.clock.pause(60)
    return conversation


def _found() -> list[Row]:
    conversation = converse()
    ended = [one for one in conversation.entries(Compacted) if one.status == "completed" and one.cut]
    if len(ended) < COMPACTIONS:
        raise MeasureError(f"{len(ended)} compactions of {COMPACTIONS}")
    for _ in EmbeddedMemoryIndex(conversation.ports).rebuild(SCOPE):
        pass
    parts, timeline = _segments(conversation.ports), conversation.timeline().whole()
    other = {name: _count(parts, timeline, 1, lists) for name, lists in LISTS.items()}
    own = {name: _count(parts, timeline, 0, lists) for name, lists in LISTS.items()}
    size = sum(len(part.rows) for part in parts)
    note = f"of {len(FACTS)} facts in {TURNS} turns, {size} rows, {len(ended)} compactions"
    return [
        _found_row("memory_found_by_other_words", other, FOUND, note),
        _found_row("memory_found_by_its_words", own, len(FACTS), note),
    ]


def _found_row(metric: str, found: dict[str, int], goal: int, note: str) -> Row:
    value = found.pop("hybrid")
    return Row(metric=metric, value=value, unit="facts", peers=found, goal=goal, note=note)


def _count(parts: Sequence[Packed], timeline: Timeline, which: int, lists: dict[str, bool]) -> int:
    """Return how many facts are found by themselves (0) or by their questions (1)."""
    turns = timeline.turns[EVERY // 2 :: EVERY]
    return sum(
        _finds(parts, timeline, turn, texts[which], texts[0], lists)
        for turn, texts in zip(turns, FACTS, strict=True)
    )


def _finds(  # noqa: PLR0917 - a fact, and where it is looked for
    parts: Sequence[Packed], timeline: Timeline, turn: str, asked: str, fact: str, lists: dict[str, bool]
) -> bool:
    best: dict[str, MemoryRow] = {}
    for hit in rank(parts, MemoryQuery(scope=SCOPE, text=asked, limit=TURNS), **lists):
        best.setdefault(hit.row.turn, hit.row)
    if turn not in list(best)[:FIRST]:
        return False
    return any(fact in block.text for block in timeline.resolve(best[turn].path))


def _segments(ports: Ports) -> list[Packed]:
    manifest = msgspec.json.decode(ports.artifacts.get(f"{prefix(SCOPE)}/manifest"), type=MemoryManifest)
    return [decode_packed(ports.artifacts.get(segment.key)) for segment in manifest.segments]


def _searched() -> list[Row]:
    """Return how long a search of 10,000 rows takes, in a process that has them and in a new one."""
    ports = in_memory(Settings.from_env({})).ports
    index = EmbeddedMemoryIndex(ports)
    index.add(SCOPE, _many_rows())
    asked = [question for _, question in FACTS]
    warm = []
    for number in range(SEARCHES + 1):
        begin = time.perf_counter()
        index.search(MemoryQuery(scope=SCOPE, text=asked[number % len(asked)], conversation="c-1"))
        warm.append((time.perf_counter() - begin) * 1000)
    cold = _cold(ports, asked)
    times = {"warm": sorted(warm[1:]), "cold": sorted(cold)}
    objects = ports.artifacts.objects  # type: ignore[attr-defined]  # the twin's
    sizes = [len(body) for body in objects.values()]
    return [
        *(
            Row(
                metric=f"memory_search_ms_{state}_{name}",
                value=round(found[min(len(found) - 1, int(len(found) * share))], 1),
                unit="ms",
                goal=GOAL_MS[f"{state}_{name}"],
                note=f"{ROWS} rows; the mean is {statistics.mean(found):.0f}",
            )
            for state, found in times.items()
            for name, share in (("p50", 0.5), ("p95", 0.95))
        ),
        Row(
            metric="memory_read_bytes", value=sum(sizes), unit="B", note=f"by the first search of {ROWS} rows"
        ),
    ]


def _cold(ports: Ports, asked: Sequence[str]) -> list[float]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for key, body in ports.artifacts.objects.items():  # type: ignore[attr-defined]  # the twin's
            path = Path(folder) / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        names = (folder, SCOPE.tenant, SCOPE.project, SCOPE.user)
        return [
            float(
                subprocess.run(
                    [sys.executable, "-c", COLD_PROGRAM, *names, asked[number]],
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for number in range(NEW_PROCESSES)
        ]


def _many_rows() -> list[MemoryRow]:
    """Return rows of one conversation, each of what the planted texts say, in words that differ from row to row."""
    said = [text for _, *texts in THEMES for text in texts] + [fact for fact, _ in FACTS]
    return [
        MemoryRow(
            conversation="c-1",
            turn=f"turn_{number:05}",
            kind="answer",
            path=f"ar:turn_{number:05}.assistant.completion",
            text=f"{said[number % len(said)]} {said[number * 31 // len(said) % len(said)]} Number {number}.",
            at="2026-11-01T10:00:00.000Z",
            n=number + 1,
        )
        for number in range(ROWS)
    ]
