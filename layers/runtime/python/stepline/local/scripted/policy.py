"""Answer a request: the next round of a turn, a summary, a title, or plain text.

Deterministic: the same prompt gets the same answer. Requests outside a round (a summary of a conversation, a title for
a new one) are recognised by the first line of their instructions, and answered with words of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from stepline.local.scripted.digest import DIGEST_MARK, parse_digest
from stepline.local.scripted.messages_request import Prompt
from stepline.local.scripted.reading import (
    PromptView,
    Roster,
    ToolCallView,
    TurnView,
    ViewMessage,
    parse_roster,
    parse_view,
)
from stepline.local.scripted.result_text import report, report_plan
from stepline.local.scripted.scenarios import pick, suggest
from stepline.local.scripted.script import Round, Script, ScriptedText
from stepline.local.scripted.speech import (
    NOT_AN_AI,
    WHO_I_AM,
    Saying,
    channel,
    plain,
    quote_line,
    render_answer,
    render_calls,
)

SUMMARY_MARK: Final = "You summarise a conversation for the agent that continues it."
PREFIX_MARK: Final = "You summarise the earlier rounds of an unfinished turn for the agent that continues it."
GATE_MARK: Final = "You name a new conversation."
REFS_MAX: Final = 12
SAID_MAX: Final = 6
LINE_CHARS: Final = 120
TITLE_WORDS: Final = 6
TITLE_CHARS: Final = 60

_REF: Final = re.compile(r"\b(?:fi|tc|so|ar):[^\s\"'`,;<>()\]]+")
_SAID: Final = re.compile(
    r"^\[?(?:user|followup)(?: message)?\]?:?\s+(?P<text>\S.*)$", re.IGNORECASE | re.MULTILINE
)
_WORD: Final = re.compile(r"[^\W_][\w'-]*")


def answer_side_request(prompt: Prompt) -> str:
    """Answer a request outside a round; return "" for an unknown one."""
    answer = _ANSWERS.get(prompt.system.strip().partition("\n")[0].strip())
    return answer(prompt.newest_message) if answer else ""


def _summarise(text: str) -> str:
    """Return a summary of a conversation: its last messages, and the newest paths it names."""
    said = [quote_line(match["text"], limit_chars=LINE_CHARS) for match in _SAID.finditer(text)][-SAID_MAX:]
    newest = list(dict.fromkeys(ref.rstrip(".:") for ref in reversed(_REF.findall(text))))[:REFS_MAX]
    lines = [
        "## Active Work Reminder",
        *(f"- active_request: {line}" for line in said[-1:]),
        *(f"- read_refs: {ref}" for ref in reversed(newest)),
        "## Goals",
        *(f"- {line}" for line in said or ["none that I can see"]),
        "## Progress",
        f"- Done: {len(said)} of the newest messages are listed above; their results are at the paths.",
        "## Critical Context",
        f"- {NOT_AN_AI}. This summary lists words of the conversation, and understands none.",
    ]
    return "\n".join(lines)


def _name_conversation(text: str) -> str:
    """Return a title in the requested channels: the first words of the conversation's first message."""
    messages = parse_view(text).current.messages
    words = _WORD.findall(messages[0].text if messages else "")[:TITLE_WORDS]
    title = " ".join(words)[:TITLE_CHARS].strip() or "A conversation"
    return channel("thinking", "A title, from the first words.") + channel("output", plain(title))


_ANSWERS: Final[dict[str, Callable[[str], str]]] = {
    SUMMARY_MARK: _summarise,
    PREFIX_MARK: _summarise,
    GATE_MARK: _name_conversation,
}


PROTOCOL_MARK: Final = "ReactDecisionOutV2"
ALL: Final = Roster()
LAST_ROUND: Final = "This was the last round of the turn, so I stop here."
_SEVERAL: Final = re.compile(r"\bseveral\s+(?:actions|decisions)\b", re.IGNORECASE)


def answer_prompt(prompt: Prompt) -> str:
    """Return the whole answer to a request."""
    if answer := answer_side_request(prompt):
        return answer
    if PROTOCOL_MARK not in f"{prompt.system}\n{prompt.newest_message}":
        return f"{WHO_I_AM}\n\nYou wrote: “{quote_line(prompt.newest_message)}”"
    text = prompt.newest_message
    view = parse_digest(text, prompt.system) if text.startswith(DIGEST_MARK) else parse_view(text)
    return answer_view(view, parse_roster(prompt.system), several=bool(_SEVERAL.search(prompt.system)))


def answer_view(view: PromptView, roster: Roster = ALL, *, several: bool = False) -> str:
    """Return the next round of a turn: the first one not yet done, or the answer to all messages of the turn."""
    turn, left = view.current, list(view.current.calls)
    heard = [message for message in turn.messages if message.reactive]
    answer = [
        ScriptedText(text=_report_event(message)) for message in turn.messages if message.kind == "event"
    ]
    asked = [one.text for one in heard if one.kind != "steer" and (one.text or one.kind != "event")]
    chips = suggest(asked[-1] if asked else "", view, roster)
    if view.finalize or (heard and heard[-1].kind == "steer"):
        return _end(turn, [ScriptedText(text=_report_steer(heard)), *answer], chips)
    for n, text in enumerate(asked or ([] if answer else [""]), 1):
        remarks, following = play(pick(text, view, roster), left, view)
        answer += remarks
        if following is None:
            continue
        tool = following.calls[0].tool
        if not roster.has([tool]):
            answer.append(ScriptedText(text=f"I cannot do that here: there is no tool `{tool}`."))
        elif view.last_round:
            answer.append(ScriptedText(text=LAST_ROUND))
        elif turn.violations or not (several or following.insists):
            return render_calls(following.calls[:1])
        elif following.beside and n == len(asked):
            plans = [ScriptedText(text=report_plan(call)) for call in following.calls]
            return _end(turn, answer + plans, chips, calls=following.calls)
        else:
            return render_calls(following.calls)
    return _end(turn, answer, chips)


def play(
    script: Script, left: list[ToolCallView], view: PromptView
) -> tuple[list[ScriptedText], Round | None]:
    """Replay a script over the calls already made; return its remarks, and the round to do next.

    The next round is the rest of a partly done one, or None at the end of the script. Matched calls are removed from
    `left`. Of a partly done round only one call is returned at a time: calls that were refused together are made one by
    one.
    """
    said: list[ScriptedText] = []
    try:
        current = next(script)
        while True:
            if isinstance(current, ScriptedText):
                said.append(current)
                current = next(script)
                continue
            made = [(saying, _take(saying.tool, left)) for saying in current.calls]
            said += [ScriptedText(text=report(saying, call, view)) for saying, call in made if call]
            rest = tuple(saying for saying, call in made if call is None)
            if rest:
                return said, current if len(rest) == len(made) else Round(calls=rest[:1])
            current = script.send([call for _, call in made if call])
    except StopIteration:
        return said, None


def _take(tool: str, left: list[ToolCallView]) -> ToolCallView | None:
    """Remove and return the first call of a tool."""
    call = next((call for call in left if call.tool == tool), None)
    if call:
        left.remove(call)
    return call


def _end(
    turn: TurnView, answer: Sequence[ScriptedText], chips: Sequence[str], *, calls: Sequence[Saying] = ()
) -> str:
    """Return the round that completes a turn."""
    return render_answer(
        "\n\n".join([*dict.fromkeys(one.text for one in answer if one.text), f"*{WHO_I_AM}*"]),
        notes=next((one.notes for one in answer if one.notes), ""),
        calls=calls,
        asked="; ".join(message.text for message in turn.messages if message.text) or "none stated",
        files=tuple(dict.fromkeys(path for call in turn.calls for path in call.files)),
        suggestions=chips,
    )


def _report_event(event: ViewMessage) -> str:
    """Report that an event arrived, with its text."""
    text = event.text or event.payload
    said = f": “{quote_line(text)}”" if text else ""
    files = "".join(f", with `{path}`" for path in event.files)
    return f"I saw the event `{event.event}`{said}{files}."


def _report_steer(heard: Sequence[ViewMessage]) -> str:
    """Report that the turn ends, with the text of its last steer."""
    said = next((message.text for message in reversed(heard) if message.kind == "steer"), "")
    return f"I stopped, as you asked: “{quote_line(said)}”."
