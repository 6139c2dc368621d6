"""Requests that are no round of an agent: a summary of a conversation, and a title for a new one.

They are told apart by the first line of their instructions. An answer is made of the words of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from stepline.local.scripted.prompt import Prompt
from stepline.local.scripted.reading import parse_view
from stepline.local.scripted.speech import NOT_AN_AI, channel, plain, quote

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
    """Return the answer to a request that is no round of an agent; empty if it is none that is known."""
    answer = _ANSWERS.get(prompt.system.strip().partition("\n")[0].strip())
    return answer(prompt.newest_message) if answer else ""


def summarise(text: str) -> str:
    """Return a summary of a conversation: what was said last in it, and the newest paths it names."""
    said = [quote(match["text"], limit_chars=LINE_CHARS) for match in _SAID.finditer(text)][-SAID_MAX:]
    newest = list(dict.fromkeys(ref.rstrip(".:") for ref in reversed(_REF.findall(text))))[:REFS_MAX]
    lines = [
        "## Active Work Reminder",
        *(f"- active_request: {line}" for line in said[-1:]),
        *(f"- read_refs: {ref}" for ref in reversed(newest)),
        "## Goals",
        *(f"- {line}" for line in said or ["none that I can see"]),
        "## Progress",
        f"- Done: {len(said)} of the newest messages are listed above; their results stand at the paths.",
        "## Critical Context",
        f"- {NOT_AN_AI} This summary lists words of the conversation, and understands none.",
    ]
    return "\n".join(lines)


def name_conversation(text: str) -> str:
    """Return a title for a conversation, in the channels that are asked for: the first words of its first message."""
    messages = parse_view(text).current.messages
    words = _WORD.findall(messages[0].text if messages else "")[:TITLE_WORDS]
    title = " ".join(words)[:TITLE_CHARS].strip() or "A conversation"
    return channel("thinking", "A title, from the first words.") + channel("output", plain(title))


_ANSWERS: Final[dict[str, Callable[[str], str]]] = {
    SUMMARY_MARK: summarise,
    PREFIX_MARK: summarise,
    GATE_MARK: name_conversation,
}
