"""What a turn's messages and events ask for: the goals that count now, and what is to be told of the rest."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stepline.local.scripted.goal import Goal, Step, parse_goal
from stepline.local.scripted.reading import Message, View
from stepline.local.scripted.speech import quote
from stepline.model.base import Value

ALLOWED_LAST: Final[frozenset[Step]] = frozenset({"plan", "write"})
"""What may still be done once the user steered."""


class Wish(Value):
    """What is wanted: `goals` in order, of which the calls of `view` serve some. `asked` are the words.

    `steered` says that the turn is to come to an end, `told` what there is to say of a steer and of events.
    """

    goals: tuple[Goal, ...]
    asked: tuple[str, ...]
    view: View
    steered: bool = False
    told: tuple[str, ...] = ()


def read_wish(view: View) -> Wish:
    """Return what the newest turn asks for. A steer counts until something else is asked behind it."""
    messages = view.current.messages
    wanted = [message for message in messages if message.reactive]
    events = tuple(_tell(message) for message in messages if message.kind == "event")
    if view.finalize or (wanted and wanted[-1].kind == "steer"):
        steers = [message for message in wanted if message.kind == "steer"]
        return _last_wish(view, steers[-1] if steers else Message(kind="steer", text=""), events)
    asked = tuple(one.text for one in wanted if one.kind != "steer" and (one.text or one.kind != "event"))
    goals = tuple(parse_goal(text) for text in asked)
    return Wish(goals=goals or (() if events else (parse_goal(""),)), asked=asked, view=view, told=events)


def _last_wish(view: View, steer: Message, events: tuple[str, ...]) -> Wish:
    """Return what a steer asks for: to stop, and at most to put something down before."""
    goal = parse_goal(steer.text)
    steps = (
        tuple(step for step in goal.steps if step in ALLOWED_LAST)
        if view.finalize > 1 or not view.last_round
        else ()
    )
    turn = replace(view.current, calls=view.current.calls[steer.calls :])
    words = f": “{quote(steer.text)}”" if steer.text else ""
    return Wish(
        goals=(replace(goal, steps=steps),) if steps else (),
        asked=(steer.text,) if steer.text else (),
        view=replace(view, turns=(*view.turns[:-1], turn)),
        steered=True,
        told=(f"I stopped, as you asked{words}.", *events),
    )


def _tell(event: Message) -> str:
    """Return that an event was seen, and what it says."""
    said = quote(event.text or event.payload)
    files = ", ".join(f"`{path}`" for path in event.files)
    words = "".join([f": “{said}”" if said else "", f", with {files}" if files else ""])
    return f"I saw the event `{event.event}`{words}."
