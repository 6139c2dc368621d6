"""The system prompt: short template files in a fixed order, then the limits and the catalogue of tools.

Its bytes depend on its arguments only, because everything a provider caches follows it. Content that changes
from round to round belongs in ANNOUNCE.

Source: docs/concepts/context.md#the-system-part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from stepline.context.journal.staged import JournalText
from stepline.model.decision import FanoutMode
from stepline.model.version import JOURNAL, TIMELINE, AgentVersion, Layout
from stepline.protocol.decision.fanout import FanoutRule, Strategy, may_be_apart, may_share_round
from stepline.rendering.render_entry import RESULT_PREVIEW_CHARS
from stepline.tools.context import ReadCaps
from stepline.tools.spec import ToolSpec, render_tool_catalogue, split_catalogue

EXECUTION: Final = "execution"
CITATIONS: Final = "citations"
RESULT: Final = "result"
TEMPLATES: Final = (
    *("protocol", "decision", RESULT, "single", "staged", "several", "notes", "timeline", "paths"),
    *(EXECUTION, CITATIONS, "finishing"),
)
"""The files of `templates/`, in order; an agent gets those that apply to it."""
IN_JOURNAL: Final = {
    "decision": "journal_decision",
    "notes": "journal_notes",
    "timeline": "journal_read",
    "paths": "journal_paths",
}
"""The files that replace others in the layout `journal`."""
WRAPUP: Final = "journal_wrapup"
"""The block of its last round."""
COMMON: Final = "[AVAILABLE COMMON TOOLS]"
INFRASTRUCTURE: Final = "[AVAILABLE INFRASTRUCTURE TOOLS]"
"""The headings of its two lists of tools: those of the task, and the runtime's own."""

GATE: Final = "gate"
"""The instructions of the gate stage."""
COMPACTION_SUMMARY: Final = "compaction_summary"
PREFIX: Final = "compaction_prefix"
"""The instructions for summarising turns, and the earlier rounds of an open one."""
TITLE: Final = "Title: Packing list for a weekend\n"
NAMING: Final = "first a line `Title: …` that names the whole conversation in at most six words, then "
"""Inserted into the text about the title if there is no gate."""

ALIAS_TOOLS: Final = 2
"""The number of tools from which those of one alias are named together."""
SEARCH: Final = "web_tools."
"""The prefix of tools that return sources."""

_FITS: Final[Mapping[FanoutMode, str]] = {"safe_fanout": "fit_by_kind", "read_write_search": "fit_by_name"}
_KINDS: Final[tuple[tuple[Strategy, str], ...]] = (
    ("exploration", "looks about"),
    ("exploitation", "makes"),
    ("neutral", "is neutral"),
)


class PromptFacts(NamedTuple):
    """The facts from which an agent's instructions are made.

    `packages` are those that programs may import, in a fixed order; None for an agent that runs no programs.
    `fanout` limits a round; without it, and always in version `v2`, a round takes one action. `result` are the lines about
    the value of an agent with a result type, "" for any other.
    """

    tools: Sequence[ToolSpec]
    caps: ReadCaps
    packages: Sequence[str] | None = None
    fanout: FanoutRule | None = None
    version: AgentVersion = "v3"
    result: str = ""


def system_prompt(facts: PromptFacts) -> str:
    """Return the complete instructions, followed by the catalogue of the tools; see `instructions`."""
    return f"{instructions(facts)}\n{render_tool_catalogue(facts.tools).strip()}\n"


def journal_text(facts: PromptFacts, lists: Sequence[str] = ()) -> JournalText:
    """Return the system part of the layout `journal` in its blocks; `lists` follow those of the tools. See `instructions`."""
    common, infrastructure = split_catalogue(facts.tools)
    blocks = (f"{INFRASTRUCTURE}\n{infrastructure}", *(one for one in lists if one))
    return JournalText(
        instructions=instructions(facts, JOURNAL),
        tools=f"{COMMON}\n{common}\n",
        catalogue="\n".join(f"{block.strip()}\n" for block in blocks),
        wrapup=load_template(WRAPUP),
    )


def instructions(facts: PromptFacts, layout: Layout = TIMELINE) -> str:
    """Return the instructions without catalogues."""
    tools, caps, packages, fanout, version, result = facts
    staged = version == "v2"
    several = fanout is not None and fanout.limit > 1 and not staged
    rounds = "several" if several else "staged" if staged else "single"
    unused = {
        *({"single", "staged", "several"} - {rounds}),
        *([] if packages is not None else [EXECUTION]),
        *([] if result else [RESULT]),
        *([] if any(spec.tool_id.startswith(SEARCH) for spec in tools) else [CITATIONS]),
    }
    names = [name for name in TEMPLATES if name not in unused]
    if not layout.shows_timeline:
        names = [IN_JOURNAL.get(name, name) for name in names]
    body = "\n".join(load_template(name) for name in names)
    if several:
        assert fanout is not None
        fit = load_template(_FITS[fanout.mode]).strip("\n")
        body = body.replace("{fit}", fit).replace("{actions}", str(fanout.limit))
        body = body.replace("{apart}", render_apart(tools))
        body = body.replace("{kinds}", render_kinds(tools)).replace("{tools}", render_listed(tools))
    for field, value in (
        ("{title}", "" if staged else TITLE),
        ("{naming}", "" if staged else NAMING),
        ("{max_chars}", caps.max_chars),
        ("{max_tokens}", caps.max_tokens),
        ("{max_bytes}", caps.max_bytes),
        *_previews(layout),
        ("{packages}", ", ".join(packages or ()) or "none"),
        ("{record}", layout.name),
        ("{result}", result),  # the last one: it is not ours
    ):
        body = body.replace(field, str(value))
    return body


def _previews(layout: Layout) -> tuple[tuple[str, int], ...]:
    """Return the characters that a request shows of results, by their fields."""
    if layout.shows_timeline:
        return (("{preview_chars}", RESULT_PREVIEW_CHARS),)
    from stepline.context.journal.turn_course import DETAILS  # noqa: PLC0415 - most agents have the other layout

    whole = DETAILS[0]
    return (("{preview_chars}", whole.preview_chars), ("{read_chars}", whole.read_chars))


def render_kinds(tools: Sequence[ToolSpec]) -> str:
    """Return the kinds of an agent's own tools, in the catalogue's order."""
    kinds = []
    for kind, words in _KINDS:
        names = _names([spec for spec in tools if kind in spec.strategies], tools)
        if names:
            kinds.append(f"what {words} ({', '.join(names)})")
    return ", ".join(kinds)


def render_apart(tools: Sequence[ToolSpec]) -> str:
    """Return the exception for a tool that makes something without anything that a search could find; "" without such tools."""
    own = [spec for spec in tools if spec.in_react]
    looks = [look for look in own if any(may_be_apart(look, made) for made in own)]
    makes = ", ".join(made.tool_id for made in own if any(may_be_apart(look, made) for look in looks))
    if not looks:
        return ""
    return f"; behind {', '.join(_names(looks, tools))} also {makes} on another matter"


def render_listed(tools: Sequence[ToolSpec]) -> str:
    """Return the agent's own tools that may share a round in mode `read_write_search`, in the catalogue's order."""
    listed = [spec for spec in tools if may_share_round(spec.tool_id, runs_code=spec.runs_code)]
    return ", ".join(_names(listed, tools))


def _names(chosen: Sequence[ToolSpec], tools: Sequence[ToolSpec]) -> list[str]:
    """Return the names of the model's own tools among those chosen; many of one alias, all of them chosen, as `alias.*`."""
    own, others = ([spec.tool_id for spec in specs if spec.in_react] for specs in (chosen, tools))
    count, all_ = (Counter(name.partition(".")[0] for name in names) for names in (own, others))
    whole = {alias for alias in count if count[alias] == all_[alias] >= ALIAS_TOOLS}
    heads = ((name, name.partition(".")[0]) for name in own)
    return list(dict.fromkeys(f"{alias}.*" if alias in whole else name for name, alias in heads))


@cache
def load_template(name: str) -> str:
    """Return the text of a template, without surrounding blank lines, ending in one line break."""
    path = Path(__file__).with_name("templates") / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() + "\n"
