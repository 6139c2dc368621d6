"""The rule that says whether an owner may inspect a conversation."""

from __future__ import annotations

from stepline.errors import AuthError
from stepline.ports.channel import Inspect


def check_inspect(rule: Inspect) -> None:
    """Raise AuthError `not_inspectable` if a stage with this rule does not let the owner inspect.

    A token has no roles, so nobody is an admin yet.
    """
    if rule != "owner":
        raise AuthError("this deployment does not show it", code="not_inspectable")
