"""Lines that a person types: messages, and the commands that begin with a slash. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from stepline.model.base import Value

Verb: TypeAlias = Literal["say", "steer", "stop", "new", "help", "quit", "unknown"]

NEW: Final = "/new"
ABOUT: Final[Mapping[str, str]] = {
    "/steer TEXT": "interrupt what the agent is doing, and let it come to an end by this text",
    "/stop": "end the turn; what was shown of an answer stays",
    NEW: "begin another conversation",
    "/quit": "leave; a turn that runs goes on",
    "/help": "print this",
    "//TEXT": "send /TEXT as a message",
}
HELP: Final = "\n".join(
    [
        "A line is a message; while the agent works, it is heard with what the agent does next.",
        *(f"  {command:12} {does}" for command, does in ABOUT.items()),
        "Alt-Enter begins a new line. Ctrl-C clears the line; on an empty one it ends the turn, and leaves if pressed again.",
    ]
)
_ALONE: Final[Mapping[str, Verb]] = {"/stop": "stop", NEW: "new", "/help": "help", "/quit": "quit"}


class Command(Value):
    """A line as it was meant. `text` is what to say or to steer by, or the word that is unknown."""

    verb: Verb
    text: str = ""


def parse_line(line: str) -> Command:
    """Return what a line asks for. Text of several lines is a message as it stands, unless it begins with `/steer`."""
    word, _, rest = line.partition(" ")
    if word == "/steer" and rest.strip():
        return Command(verb="steer", text=rest.strip())
    if "\n" in line or not line.startswith("/"):
        return Command(verb="say", text=line)
    if line.startswith("//"):
        return Command(verb="say", text=line[1:])
    if line.strip() == "/steer":
        return Command(verb="help")
    verb = _ALONE.get(line.strip())
    return Command(verb=verb) if verb else Command(verb="unknown", text=line.split(maxsplit=1)[0])


def render_message(text: str) -> str:
    """Return the line that is read as this message."""
    return text if parse_line(text) == Command(verb="say", text=text) else f"/{text}"
