"""One cell's run: a subject with a fresh thread, the acts that scenarios share, and the judges of what is stored and shown."""

from __future__ import annotations

import re
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bench.torture.cell import CellError, require
from bench.torture.effects import Effects
from bench.torture.model_server import ModelServer
from bench.torture.reply import pieces_of, say
from bench.torture.subject import RefusedError, Subject, Transcript
from bench.torture.watch import Watch


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long is waited, in seconds, and how large the answer is that a client misses.

    `wait_s` is the deadline of each wait; `quiet_s` is how long a thread may be idle before an answer counts as lost.
    """

    wait_s: float = 120.0
    quiet_s: float = 30.0
    gone_s: float = 600.0
    throttled_s: float = 60.0
    missed: int = 20_000
    piece_ms: int = 100
    pieces: int = 60
    poll_s: float = 0.1
    rest_s: float = 15.0


QUICK: Final = Patience(gone_s=20, throttled_s=5, missed=2_000, rest_s=1)
"""Short waits, for a run that is not published."""


@dataclass
class Trial:
    """A subject under one fault."""

    subject: Subject
    model: ModelServer
    effects: Effects
    patience: Patience
    thread: str = field(default_factory=lambda: str(uuid.uuid4()))
    notes: list[str] = field(default_factory=list)
    """What to add to the evidence of `holds`."""

    @staticmethod
    def word() -> str:
        """Return a word for a command."""
        return f"w{secrets.token_hex(4)}"

    @property
    def long(self) -> tuple[int, int]:
        """The pieces of an answer that is interrupted, and the pause after each in milliseconds."""
        return self.patience.pieces, self.patience.piece_ms

    def watch(self, before: Watch | None = None) -> Watch:
        """Return a new client, or one that continues another."""
        if before is None:
            return Watch(self.subject, self.thread)
        return Watch(self.subject, self.thread, after=before.cursor, shown=before.shown)

    def note(self, text: str) -> None:
        """Add to the evidence, once."""
        if text not in self.notes:
            self.notes.append(text)

    def send(self, text: str, message_id: str = "") -> str:
        """Send a message; return its id."""
        sent = message_id or str(uuid.uuid4())
        self.subject.send(self.thread, text, sent)
        return sent

    def rest(self) -> None:
        """Have an answered turn, and wait until a store that is written now and then has it."""
        self.require_next()
        time.sleep(self.patience.rest_s)

    def wait(self, wanted: Callable[[], bool], missing: str) -> None:
        """Wait for a condition. Raises CellError `stuck` at the deadline."""
        deadline_s = time.monotonic() + self.patience.wait_s
        while not wanted():
            require(time.monotonic() < deadline_s, "stuck", f"{missing} within {self.patience.wait_s:.0f} s")
            time.sleep(self.patience.poll_s)

    def answered(self, *words: str) -> Transcript:
        """Wait until answers that have heard all words are stored, and the thread is idle; return it.

        Raises CellError: `lost` if a message is not stored, or the thread is idle without the answer; `refused` if the turn
        failed with an error that a reader is shown; `stuck` at the deadline.
        """
        deadline_s = time.monotonic() + self.patience.wait_s
        idle_s = 0.0
        while True:
            seen = self.subject.read(self.thread)
            missing = [word for word in words if not has_heard(seen, word)]
            if not missing and seen.state == "idle":
                return seen
            if seen.state == "failed":
                raise CellError(
                    "refused", f"the turn ended with an error that the client is shown: {seen.error}"
                )
            now_s = time.monotonic()
            idle_s = (idle_s or now_s) if seen.state == "idle" else 0.0
            if (idle_s and now_s - idle_s > self.patience.quiet_s) or now_s > deadline_s:
                raise self._unanswered(seen, missing)
            time.sleep(self.patience.poll_s)

    def _unanswered(self, seen: Transcript, missing: list[str]) -> CellError:
        if seen.state != "idle":
            return CellError("stuck", f"the turn was still {seen.state} after {self.patience.wait_s:.0f} s")
        for word in missing:
            if not is_stored(seen, word):
                return CellError("lost", "the message was acknowledged and is not stored")
        return CellError("lost", "the message is stored, the turn is over, and no answer was made")

    def require_answer(self, seen: Transcript, word: str, pieces: int = 0) -> None:
        """Require a message that is stored once, with one answer that has all pieces once."""
        stored = [message for message in seen.messages if message.role == "user" and word in message.text]
        require(
            len(stored) == 1, "repeated" if stored else "lost", f"the message is stored {len(stored)} times"
        )
        answers = [
            one.text for one in seen.messages if one.role == "assistant" and f"{word}.1 " in f"{one.text} "
        ]
        if not pieces:
            return
        require(len(answers) > 0, "lost", "no stored answer has the pieces of the model's answer")
        require(len(answers) == 1, "repeated", f"{len(answers)} answers to the message are stored")
        self.require_pieces(answers[0], word, pieces, "the stored answer")

    @staticmethod
    def require_pieces(text: str, word: str, pieces: int, what: str) -> None:
        """Require the pieces of an answer in a text, each once and in order."""
        found = piece_numbers(text, word)
        if found == list(range(1, pieces + 1)):
            return
        twice = len(found) - len(set(found))
        absent = pieces - len(set(found))
        require(not twice, "repeated", f"{twice} of {pieces} pieces are twice in {what}")
        require(not absent, "lost", f"{absent} of {pieces} pieces are missing in {what}")
        raise CellError("wrong", f"the pieces of {what} are out of order")

    def require_effect(self, word: str) -> None:
        """Require that the tool did its effect once."""
        count = self.effects.count(word)
        require(count <= 1, "repeated", f"the tool's effect is there {count} times")
        require(count == 1, "lost", "the tool's effect is not there")

    def require_next(self, *words: str) -> None:
        """Require that a further message is answered, by a model that has seen these words."""
        word = self.word()
        running = lambda: self.subject.read(self.thread).state == "running"  # noqa: E731 - a name for one condition
        self.wait(lambda: not running(), "a turn was still running")
        try:
            self.send(say(word, 1))
            seen = self.answered(word)
        except CellError as error:
            raise CellError("stuck", f"the next message was not answered: {error}") from error
        except (RefusedError, OSError) as error:
            raise CellError("stuck", f"the next message was not accepted: {error}") from error
        heard = next(one.text for one in reversed(seen.messages) if one.role == "assistant")
        absent = [one for one in words if one not in heard]
        require(not absent, "lost", "the model of the next turn did not see the earlier message")


def piece_numbers(text: str, word: str, *, is_running: bool = False) -> list[int]:
    """Return the numbers of the pieces of a word's answer in a text; the last of a running one may be cut."""
    return [int(at) for at in re.findall(rf"\b{word}\.(\d+)\b{'(?!$)' if is_running else ''}", text)]


def has_heard(seen: Transcript, word: str) -> bool:
    """Report whether a stored answer has heard a word."""
    heard = re.compile(rf"heard [^:]*\b{word}\b")
    return any(one.role == "assistant" and heard.search(one.text) for one in seen.messages)


def is_stored(seen: Transcript, word: str) -> bool:
    """Report whether a user's message with a word is stored."""
    return any(one.role == "user" and word in one.text for one in seen.messages)


def whole_answer(word: str, pieces: int) -> str:
    """Return the text of a first answer."""
    return f"heard {word}: {pieces_of(word, pieces)}"
