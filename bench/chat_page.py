"""The chat page in a browser, beside Streamdown and assistant-ui: first paint, deltas, a long answer, memory, sizes.

Every page is driven by the same code (`web/tests/bench/measure.ts`) with the same text and pieces. Ours is the whole page,
signed in by a stub, before a scripted socket: each piece is a frame as text that is parsed, reduced, folded and drawn.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from bench.browser_pages import Size, build_ours, build_peers, compressed, loaded_by, served
from bench.peer import NoPeerError
from bench.row import CHAT_PAGE, MeasureError, Row
from stepline.local.page.page_build import WEB

FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--enable-precise-memory-info",
)
VIEWPORT: Final = {"width": 1360, "height": 860}
CATEGORIES: Final = ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel", "__metadata"]
OURS: Final = "page"
RENDERER: Final = "renderer"
PEER_NAMES: Final = {"streamdown": "Streamdown", "assistant": "assistant-ui"}
PIECE_CHARS: Final = 8
ANSWER_CHARS: Final = 40_000
CHARS_PER_S: Final = 2_000
LIMIT_S: Final = 60
PAINTS: Final = 7
DELTAS: Final = 15
TURNS: Final = 200
TURN_CHARS: Final = 2_000
SHORT, LONG, TAKEN = 2, 250, 7
"""Turns of a short and of a long conversation, and how many more are taken in each."""
WAIT_MS: Final = 900_000
GOAL_MAIN_S: Final = 6.0
GOAL_TASK_MS: Final = 50.0
GOAL_LONG: Final = 1.05
GOAL_KIB: Final = 112.0
SHAPE: Final = """() => [
    document.querySelectorAll("table").length,
    [...document.querySelectorAll("h1, h2, h3, h4")].filter((one) => one.textContent.startsWith("Part ")).length,
    document.body.textContent,
]"""
METRICS: Final = {
    **dict.fromkeys(("first_paint", "first_delta", "longest_task"), "ms"),
    **dict.fromkeys(("main_piece", "main_frame", "renderer_piece", "renderer_frame"), "s CPU"),
    **dict.fromkeys(("gzip", "brotli", "inspector_gzip"), "KiB"),
    "heap_200_turns": "MB",
    "turn_of_250": "x",
}
"""Units, by what is measured."""
GOALS: Final = {
    "main_frame": GOAL_MAIN_S,
    "longest_task": GOAL_TASK_MS,
    "gzip": GOAL_KIB,
    "turn_of_250": GOAL_LONG,
}


@dataclass
class Found:
    """Values and notes by metric, and by page within it."""

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def take(self, metric: str, page: str, value: float, note: str = "") -> None:
        """Keep a value of a page; its note names it."""
        self.values.setdefault(metric, {})[page] = value
        if note:
            self.notes.setdefault(metric, []).append(f"{PEER_NAMES.get(page, 'ours')} {note}")


def rows() -> list[Row]:
    """Return a row for each of `METRICS`."""
    found, absent = Found(), ""
    with ExitStack() as stack:
        ours = build_ours()
        places = {page: stack.enter_context(served(ours)) + f"{page}.html" for page in (OURS, RENDERER)}
        _weigh(found)
        try:
            peers = build_peers()
            address = stack.enter_context(served(peers))
            places |= {page: f"{address}{page}.html" for page in PEER_NAMES}
            for page in PEER_NAMES:
                _take_size(found, page, compressed(loaded_by(peers / f"{page}.html")))
        except NoPeerError as error:
            absent = str(error)
        why = _drive(found, places)
    return make_rows(found, absent, why)


def make_rows(found: Found, absent: str, why: str) -> list[Row]:
    """Return the rows; `absent` is the reason for missing peers, `why` that for a missing browser, "" if it exists."""
    made = []
    for metric in CHAT_PAGE:
        values = dict(found.values.get(metric, {}))
        notes = list(found.notes.get(metric, []))
        mine = values.pop(RENDERER if metric.startswith("renderer_") else OURS, None)
        if mine is None and why:
            notes.append(f"not measured: {why}")
        elif absent and "inspector" not in metric:
            notes.append(absent)
        peers = {PEER_NAMES[page]: value for page, value in values.items()}
        made.append(
            Row(
                metric=f"chat_page_{metric}",
                value=mine,
                unit=METRICS[metric],
                peers=peers,
                goal=GOALS.get(metric),
                note="; ".join(notes),
            )
        )
    return made


def make_answer(chars: int) -> str:
    """Return Markdown of headings, paragraphs with marks and links, lists, tables and code, cut at a block's end."""
    blocks: list[str] = []
    part = 0
    while sum(len(block) + 2 for block in blocks) < chars:
        part += 1
        blocks += _part(part)
    return "\n\n".join(blocks) + f"\n\nThis is the end of {part} parts."


def cut(text: str, size: int) -> list[str]:
    """Return the text in pieces of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def _part(part: int) -> list[str]:
    sentence = (
        f"Colony **{part}** nests in the old trees on the *northern* shore, and `count_{part}` has grown since the reeds "
        f"came back; see [the survey](https://example.org/survey/{part}) for how it was counted."
    )
    lines = "\n".join(
        f'    total_{at} = sum(row["nests"] for row in rows if row["year"] > {2000 + at})' for at in range(6)
    )
    cells = "\n".join(f"| {2018 + at} | {part * 7 + at} | {part * 3 + at} | `site-{at}` |" for at in range(6))
    return [
        f"## Part {part}: a colony and its years",
        f"{sentence} {sentence}",
        f"- first, the nests of spring {part}\n- second, **those that were kept**\n- third, what the reeds hid",
        f"| year | nests | young | place |\n|---|---:|---:|---|\n{cells}",
        f"### How it was computed\n\n{sentence}",
        f'```python\ndef totals_{part}(rows: list[dict]) -> int:\n    """Sum the nests of a colony."""\n{lines}\n    return total_0\n```',
    ]


def _weigh(found: Found) -> None:
    """Record the sizes of the built chat page."""
    dist = WEB / "dist"
    _take_size(found, OURS, compressed(loaded_by(dist / "index.html")))
    for name in ("codes", "later", "highlight", "preview"):
        size = compressed(sorted(dist.glob(f"assets/{name}-*")))
        found.notes.setdefault("gzip", []).append(f"{name}, when it is needed, {size.gzip / 1024:.1f}")
    inspector = compressed(sorted(dist.glob("assets/inspect-*")))
    found.take(
        "inspector_gzip",
        OURS,
        round(inspector.gzip / 1024, 1),
        f"with brotli {inspector.brotli / 1024:.1f}; loaded when it is opened",
    )


def _take_size(found: Found, page: str, size: Size) -> None:
    found.take("gzip", page, round(size.gzip / 1024, 1))
    found.take("brotli", page, round(size.brotli / 1024, 1))


def _drive(found: Found, places: Mapping[str, str]) -> str:
    """Measure every page in one browser; return the reason if that is not possible here, else ""."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        return "no Chromium on this machine"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "no Playwright in this environment"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        _first_paints(found, browser, places)
        answer = make_answer(ANSWER_CHARS)
        for page, address in places.items():
            _deltas(found, browser, page, address)
            _each_piece(found, browser, page, address, answer)
            _each_frame(found, browser, page, address, answer)
            if page != RENDERER:
                _memory(found, browser, page, address)
        _long_conversation(found, browser, places[OURS])
        version = browser.version
        browser.close()
    found.notes.setdefault("first_paint", []).append(f"Chromium {version}")
    return ""


@contextmanager
def _opened(browser: Any, address: str) -> Iterator[Any]:
    """Open a page in its own context, without a cache; yield it when it has been painted."""
    context = browser.new_context(viewport=VIEWPORT)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.wait_for_function("window.bench && bench.shownMs !== null && document.querySelector('main')")
    yield page
    context.close()
    if errors:
        raise MeasureError(f"{address} threw: {errors[0]}")


def _first_paints(found: Found, browser: Any, places: Mapping[str, str]) -> None:
    taken: dict[str, list[float]] = {page: [] for page in places if page != RENDERER}
    for number in range(PAINTS + 1):
        for name, times in taken.items():
            with _opened(browser, places[name]) as page:
                page.wait_for_selector("textarea")
                painted = page.evaluate(
                    "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
                )
            if number:
                times.append(painted)
    for name, times in taken.items():
        found.take("first_paint", name, round(statistics.median(times), 1))


def _deltas(found: Found, browser: Any, name: str, address: str) -> None:
    if name == RENDERER:
        return
    times = []
    with _opened(browser, address) as page:
        for number in range(DELTAS + 1):
            page.evaluate("prompt => bench.begin(prompt)", f"Prompt {number}")
            taken = page.evaluate("piece => bench.firstDelta(piece)", f"delta{number}x")
            page.evaluate("bench.end()")
            if number:
                times.append(taken)
    found.take("first_delta", name, round(statistics.median(times), 1))


def _each_piece(found: Found, browser: Any, name: str, address: str, answer: str) -> None:
    with _opened(browser, address) as page:
        pieces = cut(answer, PIECE_CHARS)
        spent, drawn = _spend(page, f"pieces => bench.eachPiece(pieces, {LIMIT_S})", pieces)
        if drawn == len(pieces):
            _check(page, answer)
    metric = "renderer_piece" if name == RENDERER else "main_piece"
    _take_spent(found, metric, name, spent)
    if drawn < len(pieces):
        note = f"was stopped after {LIMIT_S} s, with {drawn} of {len(pieces)} pieces: at least this"
        found.notes.setdefault(metric, []).append(f"{PEER_NAMES.get(name, 'ours')} {note}")


def _each_frame(found: Found, browser: Any, name: str, address: str, answer: str) -> None:
    with _opened(browser, address) as page:
        browser.start_tracing(page=page, categories=CATEGORIES)
        spent, _ = _spend(page, f"pieces => bench.eachFrame(pieces, {CHARS_PER_S})", cut(answer, PIECE_CHARS))
        longest = longest_task_ms(json.loads(browser.stop_tracing())["traceEvents"])
        _check(page, answer)
    metric = "renderer_frame" if name == RENDERER else "main_frame"
    _take_spent(found, metric, name, spent)
    if name != RENDERER:
        found.take("longest_task", name, round(longest, 1))


def _take_spent(found: Found, metric: str, name: str, spent: Mapping[str, float]) -> None:
    found.take(
        metric,
        name,
        round(spent["TaskDuration"], 2),
        f"style and layout {spent['RecalcStyleDuration'] + spent['LayoutDuration']:.1f}",
    )
    if name == "streamdown":
        found.take(metric.replace("main_", "renderer_"), name, round(spent["TaskDuration"], 2))


def _spend(page: Any, script: str, pieces: Sequence[str]) -> tuple[dict[str, float], Any]:
    """Return the CPU seconds of the page's main thread while an answer grows and ends, by kind of work, and the result."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate("bench.begin('Tell me about the colonies.')")
    before = _metrics(session)
    result = page.evaluate(script, pieces)
    page.evaluate("bench.end()")
    after = _metrics(session)
    return {name: after[name] - before[name] for name in after}, result


def _metrics(session: Any) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def _check(page: Any, answer: str) -> None:
    """Raise MeasureError unless the page shows the whole answer correctly."""
    tables, headings, text = page.evaluate(SHAPE)
    wanted, last = answer.count("## Part "), answer.rpartition("\n")[2]
    if (tables, headings) != (wanted, wanted) or last not in text:
        raise MeasureError(f"{page.url} shows {tables} tables and {headings} headings of {wanted}")


def _memory(found: Found, browser: Any, name: str, address: str) -> None:
    with _opened(browser, address) as page:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        empty = _heap_mb(session)
        page.evaluate("texts => bench.turns(texts)", [make_answer(TURN_CHARS)] * TURNS)
        found.take(
            "heap_200_turns",
            name,
            round(_heap_mb(session), 1),
            f"{empty:.1f} before, {_metrics(session)['Nodes'] / 1000:.0f}k nodes",
        )


def _long_conversation(found: Found, browser: Any, address: str) -> None:
    """Record the main thread's time for a turn after 250 others, over one after two, measured alternately."""
    text = make_answer(TURN_CHARS)
    pieces = cut(text, PIECE_CHARS)
    taken: dict[int, list[float]] = {SHORT: [], LONG: []}
    with ExitStack() as stack:
        pages = {turns: stack.enter_context(_opened(browser, address)) for turns in taken}
        for turns, page in pages.items():
            page.evaluate("texts => bench.turns(texts)", [text] * turns)
        for number in range(TAKEN + 1):
            for turns, page in pages.items():
                page.bring_to_front()
                spent, _ = _spend(page, f"pieces => bench.eachPiece(pieces, {LIMIT_S})", pieces)
                if number:
                    taken[turns].append(spent["TaskDuration"] * 1000)
    short, long = (statistics.median(taken[turns]) for turns in (SHORT, LONG))
    found.take(
        "turn_of_250",
        OURS,
        round(long / short, 2),
        f"{short:.0f} ms after {SHORT} turns, {long:.0f} after {LONG}",
    )


def _heap_mb(session: Any) -> float:
    """Return the memory of the page's scripts after a garbage collection."""
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def longest_task_ms(events: Sequence[Mapping[str, Any]]) -> float:
    """Return the longest task of the page's main thread in a trace, by its CPU time."""
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event.get("tdur", event["dur"]) / 1000
        for event in events
        if event["name"] == "RunTask" and "dur" in event and (event["pid"], event["tid"]) in mains
    ]
    if not tasks:
        raise MeasureError("the trace has no task of a page")
    return float(max(tasks))
