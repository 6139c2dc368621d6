"""A model of an evaluation whose rounds are written down, as a record of one would have them."""

from collections.abc import Callable

from stepline.adapters.memory.model import MemoryProvider, Say, ScriptedCall
from stepline.local.evaluation.evaluated_model import EvaluatedModel
from stepline.ports.model import ModelRequest, RoleChoice
from stepline.testing import Decision


class WrittenProvider(MemoryProvider):
    """Plays decisions in the rounds; `other` answers each request of another role, such as a summary or a judge."""

    def __init__(self, *decisions: Decision | str, other: Callable[[ModelRequest], str]) -> None:
        super().__init__(*(Say(text=one if isinstance(one, str) else one.text) for one in decisions))
        self._other = other

    def call(self, request: ModelRequest, role: RoleChoice) -> ScriptedCall:
        if request.role.startswith("solver."):
            return super().call(request, role)
        return ScriptedCall(request, lambda: Say(text=self._other(request)))


def written_model(
    *decisions: Decision | str, other: Callable[[ModelRequest], str] = lambda _: "{}", judges: bool = True
) -> EvaluatedModel:
    """Return a model that plays the same decisions in every run of every case."""
    return EvaluatedModel(
        name="written", provider=lambda _: WrittenProvider(*decisions, other=other), judges=judges
    )
