"""The table of requests that the scripted model understands, and its suggestions.

A message picks the first row whose pattern matches its beginning; the last row matches everything. To support another
request, write a script and add a row. A suggestion is the text of a row, or a request on the card of a tool. Source:
docs/reference/scripted-model.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from stepline.local.scripted import script
from stepline.local.scripted.reading import ExampleRequest, PromptView, Roster
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
)
from stepline.local.scripted.script import MatchedMessage, Script, ScriptedText
from stepline.local.scripted.speech import plain, quote_line
from stepline.local.tour import APPROVAL, CHART, PLAN_AND_FILE, SEARCHED, STEPS, TOUR

_LEAD: Final = r"\A(?:(?:please|now|then|and)\s+)*"
_FLAGS: Final = re.IGNORECASE | re.DOTALL


SUGGESTIONS: Final = 3
QUOTE_CHARS: Final = 160
IN_EUROS: Final = "Give the totals in euros, too."
BEST_MONTH: Final = "Which month sold most?"
RECALL: Final = "What did I say before?"


class Scenario(NamedTuple):
    """One row: an example request, the pattern that picks the row, and the script that answers.

    Without a pattern the example is the whole request. `tools` are those that the script needs, and `file` is the name
    of a file that it reads. `then` are follow-up requests.
    """

    example: str
    pattern: re.Pattern[str] | None
    script: Callable[[MatchedMessage], Script]
    tools: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    file: str = ""

    def match(self, text: str) -> dict[str, str] | None:
        """Return the groups of the pattern in a message that picks the row, None for another message."""
        if self.pattern is None:
            return {} if _fold(text) == _fold(self.example) else None
        found = self.pattern.match(text.strip())
        return found.groupdict(default="") if found else None


def anything_else(asked: MatchedMessage) -> Script:
    """Answer that there is no rule for the request."""
    said = (
        f"`{plain(quote_line(asked.text, limit_chars=QUOTE_CHARS))}`"
        if asked.text
        else "a message without words"
    )
    yield ScriptedText(text=f"I have no rule for {said}; choose one of the suggestions below.")


SCENARIOS: Final = (
    Scenario(
        'Do what this script says:\n```script\n{"calls":[{"tool":"react.read","params":{"paths":["newest:note.md"]}}]}\n```',
        re.compile(r"\A[^`]*```script[ \t]*\n(?P<rounds>.*?)```", _FLAGS),
        script.sent,
    ),
    Scenario(
        PLAN_AND_FILE,
        re.compile(
            rf"{_LEAD}make a plan with (?P<steps>\w+) steps, write it to a file"
            r"(?: with the word (?P<word>\S+) in it)? and read it back",
            _FLAGS,
        ),
        script.plan_and_file,
        tools=(PLAN, WRITE, READ),
        then=("Read plan.md.", RECALL),
    ),
    Scenario(
        "Make a plan with three steps.",
        re.compile(rf"{_LEAD}make a plan with (?P<steps>\w+) steps", _FLAGS),
        script.plan,
        tools=(PLAN,),
        then=("Make two plans with two steps each, in one round.", RECALL),
    ),
    Scenario(
        "Make two plans with two steps each, in one round.",
        None,
        script.two_plans,
        tools=(PLAN,),
        then=("Make a plan with three steps.", RECALL),
    ),
    Scenario(
        "Write a file note.md with grey herons and read it back.",
        re.compile(
            rf"{_LEAD}write a file (?P<name>\S+) with (?:the word (?P<word>\S+) in it|(?P<text>.+?))"
            r"(?P<back> and read it back)?[.!]?\Z",
            _FLAGS,
        ),
        script.write,
        tools=(WRITE, READ),
    ),
    Scenario(
        "Read note.md.",
        re.compile(rf"{_LEAD}read (?P<path>[^\s.:]+[.:]\S+)", _FLAGS),
        script.read,
        tools=(READ,),
    ),
    Scenario(CHART, None, script.chart, tools=(WRITE, EXEC), then=(IN_EUROS, BEST_MONTH)),
    Scenario(
        IN_EUROS,
        None,
        script.in_euros,
        tools=(EXEC, PULL),
        then=(BEST_MONTH, f"Read {script.EUROS}."),
        file=script.TOTALS,
    ),
    Scenario(
        BEST_MONTH,
        None,
        script.best_month,
        tools=(READ,),
        then=(IN_EUROS, f"Read {script.TOTALS}."),
        file=script.TOTALS,
    ),
    Scenario(STEPS, None, script.steps, tools=(PLAN, WRITE), then=(f"Read {script.STEPS}.", RECALL)),
    Scenario(APPROVAL, None, script.approvals, then=("Write a file letter.md with kind regards.", RECALL)),
    Scenario(
        "Write a CSV of sales over six months to sales.csv.",
        re.compile(rf"{_LEAD}write a csv of sales\b.*? over (?P<months>\w+) months to (?P<name>\S+)", _FLAGS),
        script.write_sales,
        tools=(WRITE,),
        then=("Compute the monthly totals of sales.csv and draw a chart.", "Read sales.csv."),
    ),
    Scenario(
        "Compute the monthly totals of sales.csv and draw a chart.",
        re.compile(rf"{_LEAD}compute the monthly totals of (?P<path>\S+) and draw a chart", _FLAGS),
        script.monthly_totals,
        tools=(EXEC,),
        then=(IN_EUROS, BEST_MONTH),
    ),
    Scenario(
        SEARCHED,
        re.compile(
            rf"{_LEAD}search for (?P<query>[^.!?]+?) and "
            r"(?:tell me what you find|write what you find to a file (?P<name>\S+))",
            _FLAGS,
        ),
        script.search,
        tools=(SEARCH,),
        then=(
            "Search for prompt caching and write what you find to a file caching.md.",
            "Search for prompt caching and make a document report.pdf of what you find.",
            "Read caching.md.",
        ),
    ),
    Scenario(
        "Search for prompt caching and make a document report.pdf of what you find.",
        re.compile(
            rf"{_LEAD}search for (?P<query>[^.!?]{{1,80}}?) and make a document (?P<name>\S{{1,80}}) of what you find",
            _FLAGS,
        ),
        script.document,
        tools=(SEARCH, f"{RENDER}pdf"),
        then=("Read report.pdf.", RECALL),
    ),
    Scenario(
        "What did we say about grey herons?",
        re.compile(
            rf"{_LEAD}what did we say about (?P<query>[^.!?]{{1,80}}?)(?P<anywhere> in any conversation)?\s*[.!?]",
            _FLAGS,
        ),
        script.remember,
        tools=(MEMSEARCH,),
    ),
    Scenario(
        "What does the cost page say about idle cost?",
        re.compile(
            rf"{_LEAD}(?:what do(?:es)? (?:the )?(?P<place>[^?!]{{1,80}}?)(?: page)? say about|look up) (?P<query>[^?!]{{1,200}})",
            _FLAGS,
        ),
        script.look_up,
        tools=(LOOK_UP, READ),
    ),
    Scenario(RECALL, re.compile(rf"{_LEAD}what did i say", _FLAGS), script.recall),
    Scenario(
        "Run this program:\n```python\nopen('outputs/done.txt', 'w').write('done')\n```",
        re.compile(
            rf"{_LEAD}run this program(?: with a timeout of (?P<seconds>\w+) seconds?)?(?P<promised>[^:`]*):\s*"
            r"```\w*[ \t]*\n(?P<code>.*?)```",
            _FLAGS,
        ),
        script.given_program,
        tools=(EXEC,),
    ),
    Scenario("Hello there.", re.compile(""), anything_else),
)


def find_scenario(text: str) -> tuple[Scenario, dict[str, str]]:
    """Return the first row that a message picks, and the groups of its pattern."""
    return next((row, words) for row in SCENARIOS if (words := row.match(text)) is not None)


def find_request(text: str, roster: Roster) -> ExampleRequest | None:
    """Return the request on a tool's card that equals a message."""
    said = _fold(text)
    return next((one for one in roster.requests if _fold(one.text) == said), None)


def pick(text: str, view: PromptView, roster: Roster) -> Script:
    """Return the script that answers a message, ready to start."""
    row, words = find_scenario(text)
    asked = MatchedMessage(text=text.strip(), words=words, view=view)
    request = find_request(text, roster)
    if request is None or (request.tool == LOOK_UP and row is not SCENARIOS[-1]):
        return row.script(asked)
    if request.tool == LOOK_UP:
        return script.look_up(replace(asked, words={"place": "", "query": asked.text}))
    return script.call_tool(request)


def suggest(text: str, view: PromptView, roster: Roster) -> tuple[str, ...]:
    """Return the suggestions after a message: its follow-up requests, then the remaining first ones.

    Each is answered by its own row or by a tool's card, with available tools and visible files.
    """
    now = {_fold(message.text) for message in view.current.messages}
    said = {_fold(message.text) for turn in view.turns for message in turn.messages}
    following, tour = list(_follow(text, view, roster)), _first_requests(roster)
    fresh = [one for one in tour if _fold(one) not in said]
    offered = dict.fromkeys([*following[:2], *fresh, *following[2:], RECALL, *tour])
    return tuple(one for one in offered if _fold(one) not in now)[:SUGGESTIONS]


def _first_requests(roster: Roster) -> tuple[str, ...]:
    """Return the first suggestions for a user: those of the agent's own tools, then the tour's."""
    own = [one.text for one in roster.requests]
    tour = [text for text in TOUR.values() if roster.has(find_scenario(text)[0].tools)]
    return (*own, *tour)


def _follow(text: str, view: PromptView, roster: Roster) -> Iterator[str]:
    """Yield the follow-up requests of a message that can be answered now."""
    files = [path for call in view.current.calls for path in call.files]
    newest = [f"Read {path.rpartition('/')[2]}." for path in files[-1:]]
    for one in find_scenario(text)[0].then or newest:
        row, words = find_scenario(one)
        asked = MatchedMessage(text=one, words=words, view=view)
        name = row.file or asked.words.get("path", "")
        if row is not SCENARIOS[-1] and roster.has(row.tools) and (not name or asked.sees(name)):
            yield one


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
