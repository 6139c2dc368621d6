"""A provider of models that answers from a record, and asks another one about what the record does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from stepline.errors import InputError, SteplineError
from stepline.ports.model import (
    AnswerFacts,
    ModelProvider,
    ModelRequest,
    ProviderCall,
    RoleChoice,
)
from stepline.replay.recorded_turn import RecordedAnswer

RECORDED: Final = "recorded"
DIVERGED: Final = "replay_diverged"
"""The code of a request that is not in the record, if no model may be asked."""

Explain = Callable[[ModelRequest], str]
"""Returns a sentence about a request that is not in the record."""


def _ignore() -> None: ...


def _no_failure() -> SteplineError | None:
    return None


class RecordedProvider:
    """Answers a request that is equal to a recorded one, each answer once (`ModelProvider`).

    Any other request is asked of `model`, or, without one, raises InputError `replay_diverged` with the sentence of
    `explain`. `asks_always` are roles whose answers the record does not give. `ended` is called after each recorded
    answer, and `failure` returns the error with which the record ends here; `position` the
    recorded batch that is put next; `steer` puts a steer that arrived during an answer. `asked` counts the calls of `model`.
    """

    default_model = RECORDED
    traced_as = RECORDED

    def __init__(
        self,
        answers: Sequence[RecordedAnswer],
        *,
        explain: Explain,
        model: ModelProvider | None = None,
        asks_always: frozenset[str] = frozenset(),
        ended: Callable[[], None] = _ignore,
        failure: Callable[[], SteplineError | None] = _no_failure,
        position: Callable[[], int] = int,
        steer: Callable[[], object] = _ignore,
    ) -> None:
        self._answers = [one for one in answers if one.role not in asks_always]
        self._explain, self._model, self._ended, self._failure = explain, model, ended, failure
        self._position, self._steer = position, steer
        self.asked = 0
        self.diverged: InputError | None = None

    @property
    def left(self) -> int:
        """The number of recorded answers that no request has got."""
        return len(self._answers)

    def call(self, request: ModelRequest, role: RoleChoice) -> ProviderCall:
        """Return the recorded answer, or a call of the model. Raises InputError `replay_diverged`."""
        at = self._position()
        found = next((one for one in self._answers if one.answers(request) and not 0 < one.upto < at), None)
        if found is not None:
            if not found.upto:
                self._answers.remove(found)
            return RecordedCall(found, self._ended, self._steer)
        if self._model is not None:
            self.asked += 1
            return self._model.call(request, role)
        if (failure := self._failure()) is not None:
            raise failure
        self.diverged = InputError(self._explain(request), code=DIVERGED)
        raise self.diverged

    def warm(self) -> None: ...

    def find_refusals(self, _: RoleChoice) -> list[str]:
        return []

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        return own.get(model, 0)

    def close(self) -> None: ...


class RecordedCall:
    """The recorded answer to a request (`ProviderCall`), in one piece, or in two with a steer between them."""

    def __init__(
        self, answer: RecordedAnswer, ended: Callable[[], None], steer: Callable[[], object] = _ignore
    ) -> None:
        self._answer, self._ended, self._steer = answer, ended, steer
        self.facts = AnswerFacts()

    def send(self) -> None: ...

    def __iter__(self) -> Iterator[str]:
        answer = self._answer
        if answer.steered_at >= 0:
            yield answer.text[: answer.steered_at]
            self._steer()
            yield answer.text[answer.steered_at :]
        elif answer.text:
            yield answer.text
        self.facts = AnswerFacts(
            model=answer.model,
            stop_reason=answer.stop_reason,
            ended=True,
            declined=answer.declined,
            usage=answer.usage,
            counted=not answer.usage.estimated,
        )
        self._ended()

    def renew(self) -> bool:
        return False

    def close(self) -> None: ...

    def shut_down(self) -> None: ...
