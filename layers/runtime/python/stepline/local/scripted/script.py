"""The scripts of the scenarios: the tools that answer a request, in sequence or several in one round.

A script is a generator. It yields rounds, and is sent the calls of each with their results. Every call is reported in
the answer; other text for the answer is yielded as a remark. A script restarts for every request of the turn, so it
keeps no state and has no effects.

This module also makes the sample data: a table of sales, and the program that sums up a table by month.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Sequence
from string import Template
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.local.scripted.reading import ExampleRequest, PromptView, ToolCallView
from stepline.local.scripted.result_text import (
    EXEC,
    LOOK_UP,
    MEMSEARCH,
    PLAN,
    PULL,
    READ,
    RENDER,
    SEARCH,
    WRITE,
    numbered,
    quote_best,
    report_search,
    search_rows,
    text_read,
)
from stepline.local.scripted.speech import Saying, plain, quote_line
from stepline.model.base import Value
from stepline.model.path import parse_path, physical

NEWEST: Final = "newest:"
FILES: Final = "files/"
SALES: Final = "sales.csv"
CHART_MONTHS: Final = 6
CHART: Final = "monthly_totals.png"
TOTALS: Final = "monthly_totals.csv"
REGIONS: Final = ("North", "South", "East", "West")
SALES_PER_REGION: Final = 3
FIRST_YEAR: Final = 2026

_TOTALS_PROGRAM: Final = Template(
    """\
import os
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

root = Path(os.environ["OUTPUT_DIR"])
outputs = root / $turn / "outputs"
outputs.mkdir(parents=True, exist_ok=True)

table = pd.read_csv(root / $source)
date = next(name for name in table.columns if "date" in name.lower())
amount = table.select_dtypes("number").columns[-1]
month = pd.to_datetime(table[date]).dt.strftime("%Y-%m")
totals = table[amount].groupby(month).sum().rename_axis("month").rename("total")

totals.to_csv(outputs / "$totals", float_format="%.2f")

figure, axes = plt.subplots(figsize=(8, 4.5))
axes.bar(totals.index, totals.values, color="#3b6ea5")
axes.set_title("Monthly totals")
axes.set_ylabel(amount)
figure.autofmt_xdate()
figure.tight_layout()
figure.savefig(outputs / "$chart", dpi=120)

print("| month | total |")
print("|---|---:|")
for name, total in totals.items():
    print(f"| {name} | {total:.2f} |")
"""
)

EUROS: Final = "monthly_totals_eur.csv"
EURO_RATE: Final = 0.9
_EUROS_PROGRAM: Final = Template(
    """\
import os
from pathlib import Path

import pandas as pd

root = Path(os.environ["OUTPUT_DIR"])
outputs = root / $turn / "outputs"
outputs.mkdir(parents=True, exist_ok=True)

table = pd.read_csv(root / $source)
table["euros"] = table["total"] * $rate
table.to_csv(outputs / "$euros", index=False, float_format="%.2f")

print("| month | total | euros |")
print("|---|---:|---:|")
for row in table.itertuples():
    print(f"| {row.month} | {row.total:.2f} | {row.euros:.2f} |")
"""
)


def sales_table(*, seed: str, months: int) -> str:
    """Return made-up sales as CSV (`date,region,units,amount`); another seed gives other figures."""
    rows = ["date,region,units,amount"]
    for month in range(months):
        for region in REGIONS:
            for sale in range(SALES_PER_REGION):
                bits = hashlib.sha256(f"{seed}/{month}/{region}/{sale}".encode()).digest()
                day, units = 1 + bits[0] % 28, 1 + bits[1] % 20
                cents = 500 + int.from_bytes(bits[2:4]) % 9_500
                date = f"{FIRST_YEAR + month // 12}-{month % 12 + 1:02}-{day:02}"
                rows.append(f"{date},{region},{units},{units * cents / 100:.2f}")
    return "\n".join(rows)


def totals_program(source: str, turn: str) -> str:
    """Return the program that sums up the table at a logical path for the given turn."""
    return _TOTALS_PROGRAM.substitute(
        source=_quoted_path(source), turn=json.dumps(turn), totals=TOTALS, chart=CHART
    )


def _quoted_path(path: str) -> str:
    """Return the path where a program finds a logical path, as a string literal of its source."""
    return json.dumps(physical(parse_path(path)))


STEPS: Final = "steps.md"
STEP_COUNT: Final = 8
STEP_TEXT: Final = "Type while I write: add something, redirect me, or stop me."
FILE_STEPS: Final = ("Choose what the file says", "Write the file", "Read the file back and report the word")
MORE_STEPS: Final = ("Look at what is there now", "Choose what comes next", "Name what is left to do")
NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
HITS: Final = 3
DOCUMENTS: Final = 10
LINES_READ: Final = 30

_OUTPUT: Final = re.compile(r"(?<![\w./-])(?:outputs|files)/[\w./-]*[\w-]\.\w{1,8}\b")
_OF_TURN: Final = re.compile(r"\b(turn_[A-Za-z0-9_-]{1,64}/(?:files|outputs)/[^\s\"'`]+)")
_TOTAL: Final = re.compile(r"^(\d{4}-\d{2}),(\d{1,15}\.\d{2})$", re.MULTILINE)
# Protocol tags in a program would end its channel, or get it refused as contaminated.
_TAGS: Final = re.compile(r"</?\s*(?:channel\s*:|thinking\b)", re.IGNORECASE)


class MatchedMessage(Value):
    """A message that picked a row: its text, the groups of the row's pattern, and the visible timeline."""

    text: str
    words: dict[str, str]
    view: PromptView

    def number(self, group: str) -> int:
        """Return the number in a group, from 1 to 9, in digits or as a word; otherwise 3."""
        word = self.words[group].lower()
        return next((n for n, name in enumerate(NUMBERS, 1) if word in (name, str(n))), 3)

    def path(self, name: str) -> str:
        """Return the logical path of the newest file or `files/` folder of this name; a path is returned unchanged."""
        name = name.rstrip(".,;!?")
        if name == FILES:
            heads = [path.partition(f".{FILES}") for path in self.view.files if f".{FILES}" in path]
            return "".join(heads[-1][:2]) if heads else name
        known = [path for path in self.view.files if path.endswith(f"/{name}")]
        return name if ":" in name else [f"fi:{self.view.current.turn_id}.outputs/{name}", *known][-1]

    def sees(self, name: str) -> bool:
        """Return True if a file of this name or path is visible."""
        return self.path(name) in self.view.files


class Round(Value):
    """The calls of a round.

    Several are made at once if the instructions allow it or if the round `insists`; otherwise one by one. With
    `beside`, the answer is in the same round as the calls, whose results it does not need.
    """

    calls: tuple[Saying, ...]
    insists: bool = False
    beside: bool = False


class ScriptedText(Value):
    """Text for the answer; `notes` hold plan marks."""

    text: str = ""
    notes: str = ""


Script = Generator[Round | ScriptedText, Sequence[ToolCallView], None]


def plan(asked: MatchedMessage) -> Script:
    """Plan."""
    yield Round(calls=(make_plan(asked.number("steps")),))


def two_plans(_: MatchedMessage) -> Script:
    """Make two plans; the answer needs no result."""
    yield Round(calls=(make_plan(2), make_plan(2, MORE_STEPS)), beside=True)


def plan_and_file(asked: MatchedMessage) -> Script:
    """Plan, write a file, and read it back: the answer contains the word read from the file."""
    planned, word = make_plan(asked.number("steps")), asked.words["word"]
    steps = planned.params["steps"]
    done = (steps[0], "plan.md is written", "read back and reported")
    marks = [f"✓ [{n}] {what}" if n <= len(steps) else "" for n, what in enumerate(done, 1)]
    text = f"# Plan\n\n{numbered(steps)}\n" + (f"\nWord: {word}\n" if word else "")
    yield Round(calls=(planned,))
    yield Round(calls=(write_file("plan.md", text, marks[0]),))
    yield Round(calls=(read_file(asked.path("plan.md"), marks[1]),))
    yield ScriptedText(notes=marks[2])


def write(asked: MatchedMessage) -> Script:
    """Write a file with given text, and read it back if requested."""
    name, word = asked.words["name"], asked.words["word"]
    text = asked.words["text"].strip('"“”«»`')
    yield Round(calls=(write_word(name, word) if word else write_file(name, f"{text}\n"),))
    if asked.words["back"]:
        yield Round(calls=(read_file(asked.path(name)),))


def read(asked: MatchedMessage) -> Script:
    """Read a file by its name or path."""
    yield Round(calls=(read_file(asked.path(asked.words["path"])),))


def write_sales(asked: MatchedMessage) -> Script:
    """Write a table of made-up sales; another message gives other figures."""
    yield Round(calls=(_sales(asked, asked.words["name"].rstrip(".,;!?"), asked.number("months")),))


def _sales(asked: MatchedMessage, name: str, months: int) -> Saying:
    return write_file(name, f"{sales_table(seed=asked.text, months=months)}\n")


def monthly_totals(asked: MatchedMessage) -> Script:
    """Sum up a table by month: the answer has the table that the program printed."""
    yield from _sum_up(asked, asked.words["path"])


def _sum_up(asked: MatchedMessage, name: str) -> Script:
    if not asked.sees(name):
        yield ScriptedText(text=f"I see no file `{name}`.")
        return
    source, turn = asked.path(name), asked.view.current.turn_id
    contract = {f"outputs/{CHART}": "Bar chart of the monthly totals", f"outputs/{TOTALS}": "Monthly totals"}
    yield from run_program(asked, (source,), totals_program(source, turn), contract)


def given_program(asked: MatchedMessage) -> Script:
    """Run a given program unchanged."""
    code, said = asked.words["code"].rstrip(" \t").strip("\n"), asked.words["promised"]
    if _TAGS.search(code):
        yield ScriptedText(text="I cannot run a program that holds tags of the protocol.")
        return
    names = _OUTPUT.findall(said) or _OUTPUT.findall(code) or ["outputs/result.txt"]
    contract = dict.fromkeys(names, "Written by the program you gave me")
    limits = {"timeout_s": asked.number("seconds")} if asked.words["seconds"] else {}
    named = [f"fi:{path.replace('/', '.', 1)}" for path in dict.fromkeys(_OF_TURN.findall(code))]
    yield from run_program(asked, named, code, contract, **limits)


def search(asked: MatchedMessage) -> Script:
    """Search, and write the results to a file if requested."""
    query, name = asked.words["query"], asked.words["name"].rstrip(".,;!?")
    (found,) = yield Round(calls=(search_for(query, objective=quote_line(asked.text, limit_chars=200)),))
    if name:
        yield Round(calls=(write_file(name, f"# {query}\n\n{report_search(query, found)}\n"),))


def document(asked: MatchedMessage) -> Script:
    """Search, and make a document of the results; the file extension decides its kind."""
    query, name = asked.words["query"], asked.words["name"]
    (found,) = yield Round(calls=(search_for(query),))
    params = {"path": name, "content": f"{report_search(query, found)}\n", "title": query}
    tool = f"{RENDER}{name.rpartition('.')[2]}"
    yield Round(
        calls=(Saying(tool=tool, params=params, thinking=f"Now I make {name}.", notes=f"Making {name}"),)
    )


def sent(asked: MatchedMessage) -> Script:
    """Run the script in a message: one round per line."""
    try:
        lines = [line for line in asked.words["rounds"].split("\n") if line.strip()]
        rounds = [msgspec.json.decode(line, type=Round) for line in lines]
    except msgspec.MsgspecError as error:
        yield ScriptedText(text=f"I cannot read the script: {plain(str(error))}.")
        return
    for one in rounds:
        yield replace(one, calls=tuple(_filled(call, asked) for call in one.calls))


def _filled(value: Any, asked: MatchedMessage) -> Any:
    """Return a value of a script with its references replaced by paths and contents."""
    match value:
        case Saying():
            filled = {name: _filled(getattr(value, name), asked) for name in ("params", "artifacts")}
            return replace(value, **filled)
        case dict():
            return {name: _filled(one, asked) for name, one in value.items()}
        case list() | tuple():
            return type(value)(_filled(one, asked) for one in value)
        case str() if value.startswith(NEWEST):
            return asked.path(value.removeprefix(NEWEST))
        case "seen:":
            return _seen(asked.view)
        case _:
            return value


def _seen(view: PromptView) -> str:
    """Return a row for each staged item of the journal: the beginning of a text, or the name of a file."""
    rows = [f"{path}: {quote_line(text, limit_chars=160)}" for path, text in view.staged if text]
    return "\n".join([*rows, *(f"{path}: attached" for path in view.attached), "Word: looked", ""])


def call_tool(request: ExampleRequest) -> Script:
    """Call a tool with the parameters on its card."""
    yield Round(calls=(Saying(tool=request.tool, params=request.params, thinking=f"I call {request.tool}."),))


def chart(asked: MatchedMessage) -> Script:
    """Write a table of made-up sales, and sum it up by month with a chart."""
    yield Round(calls=(_sales(asked, SALES, CHART_MONTHS),))
    yield from _sum_up(asked, SALES)


def in_euros(asked: MatchedMessage) -> Script:
    """Add a column in euros to the newest monthly totals."""
    if not asked.sees(TOTALS):
        yield ScriptedText(text=f"I see no file `{TOTALS}`.")
        return
    source, turn = asked.path(TOTALS), asked.view.current.turn_id
    code = _EUROS_PROGRAM.substitute(
        source=_quoted_path(source), turn=json.dumps(turn), euros=EUROS, rate=EURO_RATE
    )
    yield ScriptedText(text=f"The rate is made up: 1.00 is {EURO_RATE} euros.")
    yield from run_program(asked, (source,), code, {f"outputs/{EUROS}": "Monthly totals in euros, too"})


def best_month(asked: MatchedMessage) -> Script:
    """Read the newest monthly totals, and name the largest."""
    if not asked.sees(TOTALS):
        yield ScriptedText(text=f"I see no file `{TOTALS}`.")
        return
    (seen,) = yield Round(calls=(read_file(asked.path(TOTALS)),))
    rows = _TOTAL.findall(text_read(seen, asked.view))
    month, total = max(rows, key=lambda row: float(row[1]), default=("", ""))
    yield ScriptedText(text=f"**{month}** sold most: {total}." if month else "There are no totals in it.")


def steps(_: MatchedMessage) -> Script:
    """Write a file that grows by a line each round: a turn long enough to type into."""
    yield Round(calls=(make_plan(STEP_COUNT, [f"Write line {n}" for n in range(1, STEP_COUNT + 1)]),))
    for n in range(1, STEP_COUNT + 1):
        marks = f"✓ [{n}] Line {n} is written"
        yield Round(calls=(write_file(STEPS, f"# Steps\n\n{numbered([STEP_TEXT] * n)}\n", marks),))


def approvals(_: MatchedMessage) -> Script:
    """Explain how to see an approval."""
    yield ScriptedText(
        text="A call waits for you where a rule of its tool, its bundle or the stage says so. Start the stage with "
        f'`STEPLINE_APPROVALS=\'{{"{WRITE}": "always"}}\' stepline up`, and each file that I write waits for your answer.'
    )
    yield from ()


def look_up(asked: MatchedMessage) -> Script:
    """Search the agent's documents, read the one that has the words, and cite it.

    If the message names a document, the script first looks for it: the best one whose path or title has its words.
    """
    place, query = asked.words["place"], asked.words["query"].rstrip(" .")
    root: dict[str, str] = {}
    if place:
        (found,) = yield Round(calls=(search_documents(place, limit=DOCUMENTS),))
        words = place.lower().split()
        named = max(
            search_rows(found),
            key=lambda row: sum(word in f"{row['path']} {row['title']}".lower() for word in words),
            default=None,
        )
        root = {"root": named["path"]} if named else {}
    (found,) = yield Round(calls=(search_documents(query, limit=1, **root),))
    if not (rows := search_rows(found)):
        yield ScriptedText(text=f"My documents say nothing about “{query}”.")
        return
    best = rows[0]
    item = {"path": best["path"], "line_start": best["line"], "line_count": LINES_READ}
    (seen,) = yield Round(calls=(Saying(tool=READ, params={"items": [item]}, thinking="I read it there."),))
    yield ScriptedText(text=f"{best['path']} says: {quote_best(seen, query)} [[S:{best['sid']}]]")


def recall(asked: MatchedMessage) -> Script:
    """Quote the user's messages in earlier turns."""
    said = [message.text for turn in asked.view.turns[:-1] for message in turn.messages if message.text]
    rows = "\n".join(f"- “{quote_line(text, limit_chars=160)}”" for text in said[-5:])
    yield ScriptedText(text=f"Before this you said:\n{rows}" if said else "Nothing before this is in sight.")


def remember(asked: MatchedMessage) -> Script:
    """Search the memory of earlier turns, in all of the user's conversations if the message says so."""
    params = {"query": asked.words["query"], **({"scope": "user"} if asked.words["anywhere"] else {})}
    yield Round(calls=(Saying(tool=MEMSEARCH, params=params, thinking="I look for it in earlier turns."),))


def make_plan(count: int, known: Sequence[str] = FILE_STEPS) -> Saying:
    """Plan this number of steps."""
    steps = [*known[:count], *(f"Step {n}" for n in range(len(known) + 1, count + 1))]
    return Saying(tool=PLAN, params={"mode": "new", "steps": steps}, thinking="I lay out a plan.")


def write_file(name: str, content: str, notes: str = "") -> Saying:
    """Write a file to the canvas."""
    params = {"path": name, "channel": "canvas", "content": content, "kind": "file"}
    return Saying(
        tool=WRITE, params=params, thinking=f"Now I write {name}.", notes=notes or f"Writing {name}"
    )


def write_word(name: str, word: str) -> Saying:
    """Write a file with a word in it."""
    return write_file(name, f"# {name}\n\nWord: {word}\n")


def search_for(query: str, **params: str) -> Saying:
    """Search the web."""
    return Saying(
        tool=SEARCH,
        params={"queries": [query], "objective": query, **params, "n": HITS},
        thinking=f"I search for {query}.",
        notes=f"Searching for {query}",
    )


def search_documents(query: str, **params: Any) -> Saying:
    """Search the agent's documents."""
    return Saying(tool=LOOK_UP, params={"query": query, **params}, thinking=f"I look for {query}.")


def read_file(path: str, notes: str = "") -> Saying:
    """Read a logical path."""
    name = path.rpartition("/")[2]
    return Saying(
        tool=READ,
        params={"paths": [path]},
        thinking=f"I read {name} to see what is really there.",
        notes=notes,
    )


def run_program(
    asked: MatchedMessage, opened: Sequence[str], code: str, contract: dict[str, str], **limits: Any
) -> Script:
    """Run a program that writes the files of `contract`; first pull the files of earlier turns that it opens."""
    own = f"fi:{asked.view.current.turn_id}."
    if earlier := [path for path in opened if path in asked.view.files and not path.startswith(own)]:
        why = "The program needs files of an earlier turn."
        yield Round(calls=(Saying(tool=PULL, params={"paths": earlier}, thinking=why),))
    files = [{"filename": name, "description": what} for name, what in contract.items()]
    params = {"contract": files, "prog_name": "A program", **limits}
    run = Saying(
        tool=EXEC, params=params, thinking="Now I run the program.", notes="Running the program", code=code
    )
    yield Round(calls=(run,))
