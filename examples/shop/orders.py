"""The orders, which a shop keeps in a service of its own. Here they are a file, and a refund is a stored value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

Order: TypeAlias = Mapping[str, Any]
"""An order: `number`, `item`, `eur`, `placed`, `state`."""

DEMO: Final = "demo"
"""The customer whose orders every user of the example has."""
REFUNDS: Final = "refunds"
"""The name of the stored value: the refunds of a user, in euros by the order's number."""


class StoredValues(Protocol):
    """The store of a tool or of a hook."""

    def get(self, name: str) -> Any:
        """Return the value of a name; None if it has none."""


@cache
def _table() -> Mapping[str, list[Order]]:
    found: Mapping[str, list[Order]] = json.loads(Path(__file__).with_name("orders.json").read_text())
    return found


def orders_of(user: str) -> Mapping[str, Order]:
    """Return the orders of a user by their numbers."""
    table = _table()
    return {order["number"]: order for order in table.get(user, table[DEMO])}


def refunds_of(store: StoredValues | None) -> dict[str, float]:
    """Return the refunds of a user: euros by the order's number."""
    return (store.get(REFUNDS) if store else None) or {}
