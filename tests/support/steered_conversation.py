"""A conversation that changes while the model streams: a user steers between two pieces of a generation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import Fail, MemoryModelClient, MemoryModelStream, Say
from stepline.ingress.admit import Admitted
from stepline.model.entry import Closed, Decided, Dropped, SteeredEntry
from stepline.ports.model import Completion, ModelRequest
from tests.support.conversation import Conversation, text_of
from tests.support.generation import answered

BEGIN: Final = -1
END: Final = -2

Happening = Callable[[], Any]


class InterruptedModel(MemoryModelClient):
    """Plays its script; before the text `p` of call `c` (both from 0) it runs the planned actions.

    `BEGIN` is before the first output of a call, also if it fails, and `END` after its last piece.
    """

    def __init__(self, *steps: Say | Fail | str) -> None:
        super().__init__(*steps)
        self.planned: dict[tuple[int, int], list[Happening]] = defaultdict(list)

    def stream(self, request: ModelRequest) -> MemoryModelStream:
        call = len(self.requests)
        found: Any = _Stream(super().stream(request), lambda piece: self._happen(call, piece))
        return found  # type: ignore[no-any-return]  # a stream, as the port has it

    def _happen(self, call: int, piece: int) -> None:
        for happening in self.planned.pop((call, piece), ()):
            happening()


class _Stream:
    def __init__(self, inner: MemoryModelStream, happen: Callable[[int], None]) -> None:
        self._inner = inner
        self._happen = happen
        self.abort = inner.abort

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[str]:
        self._happen(BEGIN)
        number = 0
        for piece in self._inner:
            if piece:
                self._happen(number)
                number += 1
            yield piece
        self._happen(END)

    def completion(self) -> Completion:
        return self._inner.completion()


class SteeredConversation(Conversation):
    """A conversation with an open turn, and a user who may send at any piece of the model's output."""

    def __init__(self, *script: Say | Fail | str, log: MemoryLog | None = None, **policy: Any) -> None:
        super().__init__(log=log, **policy)
        self.model: InterruptedModel = InterruptedModel(*script)
        self.send("what is new?")

    def at(self, piece: int, happening: Happening, *, call: int = 0) -> None:
        """Run an action before a piece of a call."""
        self.model.planned[call, piece].append(happening)

    def steer(self, text: str = "be brief", *, id: str = "s1") -> Admitted:  # noqa: A002 - as in `send`
        return self.send(text, id=id, kind="steer")

    def stop(self, *, id: str = "x1") -> Admitted:  # noqa: A002 - as in `send`
        return self.send("", id=id, kind="stop")

    # --- the results

    @property
    def steered(self) -> list[SteeredEntry]:
        return self.entries(SteeredEntry)

    @property
    def decided(self) -> list[Decided]:
        return self.entries(Decided)

    @property
    def closed(self) -> Closed:
        """The end of the first turn, which has exactly one."""
        (closing,) = [entry for entry in self.entries(Closed) if entry.turn == self.first_turn]
        return closing  # type: ignore[no-any-return]  # of the requested kind

    @property
    def first_turn(self) -> str:
        return self.batches()[0].state.turn

    def handed_back(self) -> dict[str, str]:
        """Return the messages handed back, each with the reason."""
        return {entry.message_id: entry.reason for entry in self.entries(Dropped)}

    def requested(self) -> list[str]:
        return [text_of(request) for request in self.model.requests]


ANSWER = "One, two, three. " * 4
SPOKEN = answered(ANSWER)


def shown_after(chars: int) -> str:
    """Return the part of the answer in `SPOKEN` that is shown after `chars` characters of it."""
    begin = SPOKEN.index(ANSWER)
    return ANSWER[: max(0, chars - begin)]
