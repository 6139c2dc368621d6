"""What was said and is not answered yet: when it is said again, and how often."""

from __future__ import annotations

from stepline.local.client.pace import Pace
from stepline.model.wire.event import ErrorFrame
from stepline.ports.clock import Clock


class Outbox:
    """Due times, tries and refusals by message id."""

    def __init__(self, clock: Clock, pace: Pace) -> None:
        """Begin with nothing said."""
        self._clock = clock
        self._pace = pace
        self._due_s: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._connections: dict[str, int] = {}
        self._refusals: dict[str, ErrorFrame] = {}

    def due(self) -> list[str]:
        """Return what is to be said again now, or given up."""
        now_s = self._clock.monotonic_s()
        return [known for known, due_s in self._due_s.items() if now_s >= due_s]

    def is_spent(self, message_id: str) -> bool:
        """Tell whether a message was said often enough, on this connection or on several that broke over it."""
        said, broken = self._tries.get(message_id, 0), self._connections.get(message_id, 0)
        return said >= self._pace.tries or broken >= self._pace.connections

    def note(self, message_id: str) -> None:
        """Note that a message goes out now."""
        self._tries[message_id] = self._tries.get(message_id, 0) + 1
        self._due_s[message_id] = self._clock.monotonic_s() + self._pace.answer_s

    def refuse(self, frame: ErrorFrame) -> None:
        """Put off a message that the server refuses for now."""
        self._refusals[frame.message_id] = frame
        self.put_off(frame.message_id)

    def last_word(self, conversation: str, message_id: str) -> ErrorFrame:
        """Return why a message is given up: the server's last refusal, or that it never answered."""
        return self._refusals.get(message_id) or no_answer(conversation, message_id)

    def put_off(self, message_id: str) -> None:
        """Say a message again a little later each time: the server is busy."""
        wait_s = self._pace.resume_every_s * 2 ** (self._tries.get(message_id, 1) - 1)
        self._due_s[message_id] = self._clock.monotonic_s() + wait_s

    def put_off_all(self) -> None:
        """The same for everything: something failed, and nobody says what."""
        for message_id in self._due_s:
            self.put_off(message_id)

    def say_all_again(self) -> None:
        """Begin anew with everything: on a new connection nothing counts that went out on the old one, but that it broke."""
        self._tries.clear()
        for message_id in self._due_s:
            self._connections[message_id] = self._connections.get(message_id, 0) + 1
        self._due_s = dict.fromkeys(self._due_s, self._clock.monotonic_s())

    def settle(self, message_id: str) -> None:
        """Forget a message: it is answered, or given up."""
        for known in (self._due_s, self._tries, self._connections, self._refusals):
            known.pop(message_id, None)


def no_answer(conversation: str, message_id: str = "") -> ErrorFrame:
    """Return what stands for the answer that never came."""
    text = "the server did not answer"
    return ErrorFrame(code="no_answer", message=text, message_id=message_id, conversation=conversation)


def silent(conversation: str) -> ErrorFrame:
    """Return what stands for the end of a turn that neither ends nor says anything."""
    text = "the turn has said nothing for longer than one may take; it is not waited for any more"
    return ErrorFrame(code="turn_silent", message=text, conversation=conversation)
