"""A conversation in which every section of a journal has content, and its requests in the layout `journal`."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Final

from stepline.context.journal.current_turn import SECTIONS
from stepline.context.journal.render_journal import LOG_HEADER, render_journal
from stepline.context.journal.staged import JournalText
from stepline.context.request import Rendered
from stepline.model.decision import RoundFacts
from stepline.model.entry import Titled
from stepline.model.source import Source
from stepline.rendering.quote import INDENT
from stepline.timeline.fold import Timeline
from tests.support.log_builder import LogBuilder

TEXT: Final = JournalText(
    instructions="Be kind and look twice. " * 20,
    tools="[AVAILABLE COMMON TOOLS]\n" + "lab.look looks. " * 20 + "\n",
    catalogue="[AVAILABLE INFRASTRUCTURE TOOLS]\nreact.read reads.\n[SKILL CATALOG]\n- sk:tidy\n- sk:brief\n",
    wrapup="[WRAP-UP]\nAnswer now.\n",
)
FACTS: Final = RoundFacts(now="2026-11-21T10:05:00.000Z", iteration=2, max_iterations=15)
SEARCH: Final = "web_tools.web_search"
FOUND: Final = "Otters eat fish."


def ask(timeline: Timeline, **facts: Any) -> Rendered:
    """Return a request of the timeline; `skills`, `shown`, `media` and `text` are staged, the rest are facts of the round."""
    beside = {name: facts.pop(name, ()) for name in ("skills", "shown", "media")}
    text = facts.pop("text", TEXT)
    about = {name: getattr(FACTS, name) for name in FACTS.__struct_fields__}
    all_facts = RoundFacts(**{**about, **facts})
    return render_journal(timeline, text=text, facts=all_facts, minimum_tokens=10, **beside)


def digest(timeline: Timeline, **facts: Any) -> str:
    """Return the text for the model after the system part."""
    return ask(timeline, **facts).content[0].text  # type: ignore[union-attr]  # the first part is a text


def structure(text: str) -> list[str]:
    """Return the lines that begin in the first column."""
    return [line for line in text.splitlines() if line and not line.startswith(INDENT)]


def section(text: str, title: str) -> str:
    """Return the content of a section of the open turn."""
    headings = [f"[{known}]" for known in SECTIONS] + [LOG_HEADER.rstrip("\n")]
    lines = text.splitlines()
    start = lines.index(f"[{title}]") + 1
    return "\n".join(takewhile(lambda line: line not in headings, lines[start:]))


def told_log() -> LogBuilder:
    """Return a log of two turns: a closed one, and one in its third round."""
    log = LogBuilder()
    log.message("Write a report on otters.")
    first = log.turn
    log.act((SEARCH, {"query": "otters"}))
    log.result(FOUND, tool=SEARCH, sources=(source(1, "Otters"),))
    log.act(("react.write", {"path": "report.md", "content": "# Otters"}))
    log.result(tool="react.write", blocks=(log.file("report.md"), log.file("own.md", visibility="internal")))
    log.answer("It is in report.md.", summary="Goal: a report on otters\nDone.")
    log.close()
    log.rate(first, "not_ok", "Too short.")
    log.message("And one on herons.")
    log.put(log.state, Titled(title="Otters and herons", at=log.at, turn=log.turn, text="They want reports."))
    log.act(("react.read", {"paths": [f"fi:{first}.outputs/report.md"]}), notes="I look first.")
    log.result(blocks=(log.view(f"fi:{first}.outputs/report.md", "# Otters"),))
    log.act((SEARCH, {"query": "herons"}), ("react.write", {"path": "herons.md"}), ("react.plan", {}))
    log.result("Herons stand.", tool=SEARCH, sources=(source(2, "Herons"),))
    note = log.block(f"fi:{log.turn}.outputs/note.md", "[D] herons before storks", type="react.note")
    log.result(tool="react.write", blocks=(log.file("herons.md"), note))
    log.result(tool="react.plan", plans=(log.plan("look", "write"),))
    return log


def source(sid: int, title: str) -> Source:
    """Return a row of the pool."""
    return Source(sid=sid, title=title, url=f"https://a.example/{sid}", text=f"All about {title}.")
