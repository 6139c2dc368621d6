"""Report calls in an answer: from their results, never from their intention."""

from __future__ import annotations

import json
import re
from itertools import dropwhile, takewhile
from typing import Any, Final

from stepline.local.scripted.reading import PromptView, ToolCallView
from stepline.local.scripted.speech import Saying, plain, quote_line

PLAN: Final = "react.plan"
WRITE: Final = "react.write"
READ: Final = "react.read"
PULL: Final = "react.pull"
PATCH: Final = "react.patch"
RG: Final = "react.rg"
CHECKOUT: Final = "react.checkout"
SEARCH: Final = "web_tools.web_search"
MEMSEARCH: Final = "react.memsearch"
LOOK_UP: Final = "react.search_knowledge"
EXEC: Final = "exec_tools.execute_code_python"
RENDER: Final = "rendering_tools.write_"
SILENT: Final = frozenset({PULL, LOOK_UP, READ})
"""Tools whose results the calling script reports, or no one does."""
LOG_LINES: Final = 20

_WORD: Final = re.compile(r"^Word: (?P<word>\S+)$", re.MULTILINE)
_ATTACHED: Final = re.compile(r"^\[FILE ATTACHED\] (?P<extent>[^;]+);", re.MULTILINE)
_STATUS: Final = re.compile(r"\AStatus: error — (?P<status>.+?)\.?$", re.MULTILINE)
_LOG: Final = re.compile(r"^Program log \(tail[^\n]*\):\n(?P<log>(?: {4}.*(?:\n|$))+)", re.MULTILINE)


def report(saying: Saying, call: ToolCallView, view: PromptView) -> str:
    """Report one call; "" if there is nothing to report."""
    if saying.tool == EXEC:
        return report_run(call)
    if not call.done and saying.tool != READ:  # a read without content names its path
        return f"`{saying.tool}` did not succeed: {quote_line(call.result)}."
    match saying.tool:
        case "react.plan":
            answer = report_plan(saying)
        case tool if tool.startswith((WRITE, RENDER, PATCH)):
            done = "patched" if tool == PATCH else "wrote"
            answer = f"I {done} `{next(iter(call.files), saying.params['path'])}`."
        case "react.read" if "paths" in saying.params:
            answer = report_read(saying.params["paths"][0], call, view)
        case "react.rg":
            answer = report_found(saying.params["pattern"], call)
        case "react.checkout":
            answer = f"I took over `{saying.params['paths'][0]}`."
        case "web_tools.web_search":
            answer = report_search(saying.params["queries"][0], call)
        case "react.memsearch":
            answer = report_memory(saying.params["query"], call)
        case tool:
            answer = "" if tool in SILENT else report_facts(tool, call)
    return answer


def report_facts(tool: str, call: ToolCallView) -> str:
    """Return the facts of a result of a bundle's tool, or the beginning of its text."""
    try:
        facts: Any = json.loads(call.report)
    except ValueError:  # a text, or truncated JSON
        facts = None
    if not isinstance(facts, dict):
        return f"`{tool}` says: “{plain(call.content or call.report)}”"
    rows = [f"- {plain(str(name))}: {plain(str(value))}" for name, value in facts.items() if name != "status"]
    return "\n".join([f"`{tool}` says:", "", *rows])


def report_plan(saying: Saying) -> str:
    """Return the steps of a plan."""
    return f"The plan:\n{numbered(saying.params['steps'])}"


def report_read(path: str, call: ToolCallView, view: PromptView) -> str:
    """Return the secret word of a file, or the start of its text; of a picture or a PDF its size."""
    text = text_read(call, view)
    if attached := _ATTACHED.search(call.result):
        return f"I see `{path}`: {attached['extent']}."
    if call.failed or not text:
        return f"I could not read `{path}`: {quote_line(call.result)}"
    word = _WORD.search(text)
    if word:
        return f"I read `{path}` back: the word in it is **{word['word']}**."
    return f"`{path}` says: “{quote_line(text, limit_chars=400)}”"


def text_read(call: ToolCallView, view: PromptView) -> str:
    """Return the text that a read showed."""
    # Content that is already visible is not shown again; the status names its path.
    places = (at for at in call.paths if not at.endswith((".result", ".notice", ".call")))
    return call.content or next((seen for at in places if (seen := view.text_at(at))), "")


def report_found(pattern: str, call: ToolCallView) -> str:
    """Return the lines that a search of files found."""
    try:
        hits: list[dict[str, Any]] = json.loads(call.report)["hits"]
    except ValueError:  # truncated JSON
        hits = []
    rows = [f"- `{hit['logical_path']}`, {match['preview']}" for hit in hits for match in hit["matches"]]
    return "\n".join([f"`{pattern}` is in {len(rows)} lines:", *rows])


def search_rows(call: ToolCallView) -> list[dict[str, Any]]:
    """Return the rows of a search."""
    try:
        rows: list[dict[str, Any]] = json.loads(call.report)["results"]
    except ValueError:  # truncated JSON, or a search that failed
        rows = []
    return rows


def quote_best(call: ToolCallView, query: str) -> str:
    """Quote the text read, starting at the line with most words of the query."""
    words = [word for word in query.lower().split() if len(word) > 2]
    lines = call.content.split("\n")
    at = max(range(len(lines)), key=lambda at: (sum(word in lines[at].lower() for word in words), -at))
    # A code span or a tag that the cut leaves open would hide the citation after it.
    return f"“{plain(' '.join(lines[at:]).lstrip('# '))}”"


def report_search(query: str, call: ToolCallView) -> str:
    """Return the results, each text with its source, and a statement that cites all of them."""
    rows = search_rows(call)
    if not rows:
        return f"I searched for “{query}” and found nothing."
    found = "\n".join(f"- {_sentence(row)} [[S:{row['sid']}]]" for row in rows)
    together = ",".join(str(row["sid"]) for row in rows)
    return f"What I found about “{query}”:\n\n{found}\n\nAll of it is in these sources: [[S:{together}]]"


def report_memory(query: str, call: ToolCallView) -> str:
    """Return the earlier turns found, each with the best of its snippets."""
    try:
        hits: list[dict[str, Any]] = json.loads(call.report)["hits"]
    except ValueError:  # truncated JSON
        hits = []
    if not hits:
        return f"I remember nothing about “{query}”."
    best = [hit["snippets"][0] for hit in hits]
    rows = "\n".join(f"- `{one['path']}`{_said(one)}" for one in best)
    return f"What I remember about “{query}”:\n{rows}"


def _said(snippet: dict[str, Any]) -> str:
    return (
        f": “{quote_line(snippet['text'], limit_chars=160)}”" if "text" in snippet else ", which is in view"
    )


def _sentence(row: dict[str, Any]) -> str:
    """Return the first sentence of a page, or its title if it has no text."""
    first = row.get("text", "").partition(". ")[0].strip()
    return f"“{quote_line(first, limit_chars=220).rstrip('.')}.”" if first else str(row["title"])


def report_run(call: ToolCallView) -> str:
    """Report the end of a program: the table it printed, or the last lines of its output, and its files."""
    if call.unverified:
        return "The run was interrupted, so I cannot tell whether the program did its work. I do not run it again."
    found, status = _LOG.search(call.report), _STATUS.search(call.report)
    lines = [line.removeprefix("    ") for line in found["log"].splitlines()] if found else []
    log = "\n".join(lines[-LOG_LINES:]).replace("```", "'''")
    printed = find_table(log) or (f"```text\n{log}\n```" if log else "nothing")
    files = "".join(f"\n- `{path}`" for path in call.files)
    if call.failed:
        return f"The program did not succeed: {quote_line(status['status'] if status else call.result)}. It printed:\n\n{printed}"
    return f"The program ran. It printed:\n\n{printed}\n\nIt wrote:{files}"


def find_table(text: str) -> str:
    """Return the first Markdown table in a text, or ""."""
    table = list(takewhile(_is_row, dropwhile(lambda line: not _is_row(line), text.split("\n"))))
    return "\n".join(table) if len(table) > 2 else ""


def numbered(steps: list[str]) -> str:
    """Return steps as a numbered list."""
    return "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))


def _is_row(line: str) -> bool:
    return line.startswith("|") and line.endswith("|")
