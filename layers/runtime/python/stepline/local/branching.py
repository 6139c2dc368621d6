"""Branches on the terminal: the last message with another text, or the last turn again, in a branch.

The chosen messages are found among the events of the newest turns, and the branch begins before the first of them.
Their files are sent again by path.
Source: docs/concepts/forks.md#branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from stepline.errors import InputError
from stepline.local.conversation import new_conversation
from stepline.local.safe_text import one_line
from stepline.model.base import Value
from stepline.model.wire.live_event import FOLLOWUP, PROMPT

if TYPE_CHECKING:
    from stepline.local.client.http_api import HttpApi
    from stepline.model.wire.event import EventFrame

OpenApi = Callable[[], "HttpApi"]
TURNS: Final = 20
"""The newest turns in whose events a message is looked for."""
MORE: Final = "and others"
_ACCEPTED: Final = "chat.conversation.accepted"
_START: Final = "chat.start"


class MessageToSend(Value):
    """A message that is sent in a branch; `files` has the name of each of its files by path."""

    text: str
    files: Mapping[str, str]


class SentMessage(Value):
    """A message of the user, with its id and the batch that admitted it.

    `files` has the name of each of its files by path; the path is "" if the events do not say it.
    """

    id: str
    n: int
    text: str
    files: Mapping[str, str]

    def with_text(self, text: str) -> MessageToSend:
        """Return the message as it is sent again. Raises InputError `bad_attachment`."""
        if "" in self.files:
            raise InputError(
                "the paths of the files are not known: attach them to a new message instead",
                code="bad_attachment",
            )
        return MessageToSend(text=text, files=self.files)


class NewBranch(Value):
    """A branch: its name, its first batch, and the messages that are sent there.

    `kept` has a line for each call after the point whose effect stays.
    """

    conversation: str
    begun: int
    messages: tuple[MessageToSend, ...]
    kept: tuple[str, ...]


def branch_before_message(api: HttpApi, conversation: str, text: str) -> NewBranch:
    """Branch before the user's last message, or the one whose id `@ID text` names, to send `text` with its files instead.

    Raises InputError `fork_point_not_found`, `bad_attachment`.
    """
    frames = api.read_events(conversation, turns=TURNS).events
    if not (messages := _list_messages(frames)):
        raise InputError("the last turns have no message of yours", code="fork_point_not_found")
    word, _, rest = text.partition(" ")
    named = next((message for message in messages if word == f"@{message.id}"), None)
    if named and rest.strip():
        return _branch(api, conversation, named, (named.with_text(rest.strip()),))
    last = messages[-1]
    return _branch(api, conversation, last, (last.with_text(text),))


def branch_before_turn(api: HttpApi, conversation: str) -> NewBranch:
    """Branch before the last turn, to send its messages again.

    Raises InputError `fork_point_not_found`, `bad_attachment`.
    """
    frames = api.read_events(conversation, turns=TURNS).events
    starts = [event.data["prompts"] for frame in frames for event in frame.events if event.type == _START]
    messages = [one for one in _list_messages(frames) if starts and one.n >= min(starts[-1])]
    if not messages:
        raise InputError("no message of yours began the last turn", code="fork_point_not_found")
    again = tuple(message.with_text(message.text) for message in messages)
    return _branch(api, conversation, messages[0], again)


def _branch(
    api: HttpApi, conversation: str, first: SentMessage, messages: tuple[MessageToSend, ...]
) -> NewBranch:
    from stepline.api.time_travel.fork_endpoints import ForkPlace, ForkRequest

    place = ForkPlace(kind="message", at=first.id, before=True)
    request = ForkRequest(conversation=new_conversation(), point=place, branch=True)
    made = api.make_fork(conversation, request)
    effects = api.list_effects(conversation, kind="message", at=first.id, before=True)
    kept = tuple(f"{call.tool} {call.title} ({call.status})".replace("  ", " ") for call in effects.items)
    return NewBranch(
        conversation=made.conversation,
        begun=made.n + 1,
        messages=messages,
        kept=(*kept, MORE) if effects.more else kept,
    )


def _list_messages(frames: Iterable[EventFrame]) -> list[SentMessage]:
    """Return the user's messages among events, oldest first; steers and other events are none."""
    return [
        SentMessage(
            id=event.data["message_id"],
            n=frame.n,
            text=event.data["text"],
            files={
                file.get("path", ""): one_line(file["filename"]) for file in event.data.get("attachments", ())
            },
        )
        for frame in frames
        for event in frame.events
        if event.type == _ACCEPTED
        and event.data["kind"] in (PROMPT, FOLLOWUP)
        and not event.data.get("source")
    ]
