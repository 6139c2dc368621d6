"""The table of requests that the scripted model understands.

A message picks the first row whose pattern matches its beginning; the last row matches everything. To support
another request, write a script and add a row. Source: docs/reference/scripted-model.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from stepline.local.scripted import script
from stepline.local.scripted.reading import View
from stepline.local.scripted.script import Asked, Remark, Script
from stepline.local.scripted.speech import quote

_LEAD: Final = r"\A(?:(?:please|now|then|and)\s+)*"
_FLAGS: Final = re.IGNORECASE | re.DOTALL


class Scenario(NamedTuple):
    """One row: an example request, the pattern that picks the row, and the script that answers."""

    example: str
    pattern: re.Pattern[str]
    script: Callable[[Asked], Script]


def anything_else(asked: Asked) -> Script:
    """Repeat the request, and list the supported ones."""
    known = " · ".join(f"*{row.example}*" for row in SCENARIOS[:-1])
    yield Remark(text=f"You wrote: “{quote(asked.text)}”\n\nThat is beyond my rules. What I do know: {known}")


SCENARIOS: Final = (
    Scenario(
        "Make a plan with three steps, write it to a file with the word tulip in it and read it back.",
        re.compile(
            rf"{_LEAD}make a plan with (?P<steps>\w+) steps, write it to a file"
            r"(?: with the word (?P<word>\S+) in it)? and read it back",
            _FLAGS,
        ),
        script.plan_and_file,
    ),
    Scenario(
        "Make a plan with three steps.",
        re.compile(rf"{_LEAD}make a plan with (?P<steps>\w+) steps", _FLAGS),
        script.plan,
    ),
    Scenario(
        "Make two plans with two steps each, in one round.",
        re.compile(rf"{_LEAD}make two plans with (?P<steps>\w+) steps each, in one round", _FLAGS),
        script.two_plans,
    ),
    Scenario(
        "Write a file lake.md with the word reed in it, read note.md and make two plans with three steps each, "
        "all in one round.",
        re.compile(
            rf"{_LEAD}write a file (?P<name>\S+) with the word (?P<word>\S+) in it, read (?P<path>\S+) and make "
            r"two plans with (?P<steps>\w+) steps each, all in one round(?P<insists>\. even if)?",
            _FLAGS,
        ),
        script.write_read_and_plan,
    ),
    Scenario(
        "Read note.md and then write a file lake.md with the word reed in it, in one round.",
        re.compile(
            rf"{_LEAD}read (?P<path>\S+) and then write a file (?P<name>\S+) with the word (?P<word>\S+) in it, in one",
            _FLAGS,
        ),
        script.read_and_write,
    ),
    Scenario(
        "Write a file note.md with grey herons and read it back.",
        re.compile(
            rf"{_LEAD}write a file (?P<name>\S+) with (?:the word (?P<word>\S+) in it|(?P<text>.+?))"
            r"(?P<back> and read it back)?[.!]?\Z",
            _FLAGS,
        ),
        script.write,
    ),
    Scenario(
        "Read note.md.",
        re.compile(rf"{_LEAD}read (?P<path>[^\s.:]+[.:]\S+)", _FLAGS),
        script.read,
    ),
    Scenario(
        "Look closely at chart.png and sales.csv with the skill public.research.",
        re.compile(
            rf"{_LEAD}look closely at (?P<names>[^\s,]{{1,120}}(?:(?:,\s*|\s+and\s+)[^\s,]{{1,120}}){{0,4}}?)"
            r"(?: with the skill (?P<skill>[\w.-]{1,80}?))?(?:[.!](?:\s.*)?)?\Z",
            _FLAGS,
        ),
        script.look_closely,
    ),
    Scenario(
        "Write a CSV of sales over six months to sales.csv.",
        re.compile(rf"{_LEAD}write a csv of sales\b.*? over (?P<months>\w+) months to (?P<name>\S+)", _FLAGS),
        script.write_sales,
    ),
    Scenario(
        "Compute the monthly totals of sales.csv and draw a chart.",
        re.compile(rf"{_LEAD}compute the monthly totals of (?P<path>\S+) and draw a chart", _FLAGS),
        script.monthly_totals,
    ),
    Scenario(
        "Search for prompt caching and tell me what you find.",
        re.compile(
            rf"{_LEAD}search for (?P<query>[^.!?]+?) and "
            r"(?:tell me what you find|write what you find to a file (?P<name>\S+))",
            _FLAGS,
        ),
        script.search,
    ),
    Scenario(
        "Search for prompt caching and make a document report.pdf of what you find.",
        re.compile(
            rf"{_LEAD}search for (?P<query>[^.!?]{{1,80}}?) and make a document (?P<name>\S{{1,80}}) of what you find",
            _FLAGS,
        ),
        script.document,
    ),
    Scenario(
        "Search for grey herons and for prompt caching and write a file lake.md with the word reed in it, in one round.",
        re.compile(
            rf"{_LEAD}search for (?P<query>[^.!?]{{1,80}}?) and for (?P<other>[^.!?]{{1,80}}?) and write a file (?P<name>\S+) with the "
            r"word (?P<word>\S+) in it, in one round",
            _FLAGS,
        ),
        script.search_and_write,
    ),
    Scenario(
        "Check out the project, apply this patch to files/birds.py, search it for crane and run files/main.py:\n"
        "```diff\n@@ -1 +1 @@\n-BIRD = 'heron'\n+BIRD = 'crane'\n```",
        re.compile(
            rf"{_LEAD}check out the project, apply this patch to (?P<path>\S{{1,80}}), search it for (?P<word>\S{{1,80}}) and run "
            r"(?P<main>[^\s:,]{1,80})(?P<promised>[^:`]{0,200}):\s*```\w*[ \t]*\n(?P<patch>.*?)```",
            _FLAGS,
        ),
        script.work_on_project,
    ),
    Scenario(
        "What did we say about grey herons?",
        re.compile(
            rf"{_LEAD}what did we say about (?P<query>[^.!?]{{1,80}}?)(?P<anywhere> in any conversation)?\s*[.!?]",
            _FLAGS,
        ),
        script.remember,
    ),
    Scenario(
        "What does the cost page say about idle cost?",
        re.compile(
            rf"{_LEAD}(?:what do(?:es)? (?:the )?(?P<place>[^?!]{{1,80}}?)(?: page)? say about|look up) (?P<query>[^?!]{{1,200}})",
            _FLAGS,
        ),
        script.look_up,
    ),
    Scenario("What did I say before?", re.compile(rf"{_LEAD}what did i say", _FLAGS), script.recall),
    Scenario(
        "Run this program:\n```python\nopen('outputs/done.txt', 'w').write('done')\n```",
        re.compile(
            rf"{_LEAD}run this program(?: with a timeout of (?P<seconds>\w+) seconds?)?(?P<promised>[^:`]*):\s*"
            r"```\w*[ \t]*\n(?P<code>.*?)```",
            _FLAGS,
        ),
        script.given_program,
    ),
    Scenario("Hello there.", re.compile(""), anything_else),
)


def pick(text: str, view: View) -> Script:
    """Return the script of the first row that matches a message, ready to start."""
    said = text.strip()
    row, found = next((row, found) for row in SCENARIOS if (found := row.pattern.match(said)))
    return row.script(Asked(text=said, words=found.groupdict(default=""), view=view))
