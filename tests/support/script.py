"""Scripts that a message sends to the scripted model: the calls of its rounds, one round a line.

Source: docs/reference/scripted-model.md#scripts.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.local.scripted.scenarios import SCENARIOS
from stepline.local.scripted.script import (
    MORE_STEPS,
    Round,
    make_plan,
    read_file,
    search_for,
    write_file,
    write_word,
)


def script(*rounds: Round, said: str = "Do what this script says:") -> str:
    """Return the message that requests these rounds; `said` is the text before the script."""
    lines = "".join(f"{msgspec.json.encode(one).decode()}\n" for one in rounds)
    return f"{said}\n```script\n{lines}```"


def together(word: str, path: str = "older.md", *, insists: bool = False) -> str:
    """Request a file lake.md with a word in it, the newest file of a name, and two plans, all in one round."""
    plans = make_plan(3), make_plan(3, MORE_STEPS)
    calls = (write_word("lake.md", word), read_file(f"newest:{path}"), *plans)
    return script(Round(calls=calls, insists=insists), said=f"Four at once, with {word}:")


def backwards(word: str, path: str = "older.md") -> str:
    """Request to read a file and to write another one, in one round and in the order that is refused."""
    return script(Round(calls=(read_file(f"newest:{path}"), write_word("lake.md", word))))


def look_closely(*names: str, skills: tuple[str, ...] = (), said: str = "Look closely:") -> str:
    """Request files and skills to be staged with a plan, and a file seen.md of the next round's view of them."""
    planned = replace(make_plan(2), artifacts=tuple(f"newest:{name}" for name in names), skills=skills)
    return script(Round(calls=(planned,)), Round(calls=(write_file("seen.md", "seen:"),)), said=said)


SEARCHES: Final = script(
    Round(calls=(search_for("grey herons"), search_for("prompt caching"), write_word("lake.md", "reed")))
)
RECORDED: Final = (
    *(row.example for row in SCENARIOS),
    together("reed", "note.md"),
    backwards("reed", "note.md"),
    SEARCHES,
)
"""A request of each kind, in a conversation that has a file note.md."""
