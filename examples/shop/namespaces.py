"""Paths of the shop: `order:A-17` is an order of the user, which the agent reads like a file."""

from __future__ import annotations

from typing import Final

from examples.shop.orders import orders_of
from stepline import NamespaceResolver, PathScope


def find_order(path: str, scope: PathScope) -> str | None:
    """Return an order of the user as Markdown; None if they have no such order."""
    order = orders_of(scope.user).get(path)
    if order is None:
        return None
    return (
        f"# Order {order['number']}\n\n"
        f"{order['item']}, {order['eur']:.2f} euros, ordered on {order['placed']}: {order['state']}.\n"
    )


ORDERS: Final = NamespaceResolver(
    namespace="order", resolve=find_order, about="<number>: an order of the user"
)
