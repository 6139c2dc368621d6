"""Where an event stands once it was submitted, in the words of whoever submitted it."""

from __future__ import annotations

from stepline.loop.admit import Admitted, Fate
from stepline.model.base import Value


class Standing(Value):
    """Where an event stands: batch `n` of the conversation, under the kind it became, and what that batch did with it.

    It `opened` turn `turn_id`, `joined` that open turn, is `kept` for the next one, or was `dropped`, since there was
    nothing to steer. A `duplicate` stood there before.
    """

    n: int
    kind: str
    fate: Fate
    turn_id: str = ""
    duplicate: bool = False


def standing_of(admitted: Admitted) -> Standing:
    """Return where an admitted event stands."""
    return Standing(
        n=admitted.batch.n,
        kind=admitted.event,
        fate=admitted.fate,
        turn_id=admitted.batch.state.turn,
        duplicate=admitted.duplicate,
    )
