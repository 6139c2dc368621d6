"""The rules that say what an owner may inspect of a conversation."""

from __future__ import annotations

from stepline.errors import AuthError
from stepline.ports.channel import Inspect, Principal


def check_inspect(rule: Inspect, owner: Principal) -> None:
    """Raise AuthError `not_inspectable` if a stage with this rule does not let the owner inspect."""
    if rule == "none" or (rule == "admin" and not owner.is_admin):
        raise AuthError("this deployment does not show it", code="not_inspectable")
