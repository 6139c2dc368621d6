"""The agent of a shop: orders, a catalogue, returns, and refunds that the customer approves."""

from __future__ import annotations

from pathlib import Path

from examples.shop.namespaces import ORDERS
from examples.shop.orders import orders_of, refunds_of
from stepline import BaseWorkflow, HookContext, Knowledge

VISITS = "visits"


class Shop(BaseWorkflow):
    """Answers about products and orders, and refunds an order after the customer's approval."""

    tools_module = "examples.shop.tools_descriptor"
    knowledge = Knowledge(Path(__file__).parent, requests=("What does the desk lamp cost?",))
    resolvers = (ORDERS,)

    @staticmethod
    def pre_run_hook(hook: HookContext) -> None:  # type: ignore[override]  # mypy binds the base's attribute
        """Contribute the number of the customer's orders, refunds and earlier questions, once a turn."""
        visits = hook.store.get(VISITS) or 0
        known = f"{len(orders_of(hook.user))} orders, {len(refunds_of(hook.store))} refunded, {visits} earlier questions"
        hook.contribute([{"type": "shop.customer", "text": f"The customer has {known}."}])

    @staticmethod
    def post_run_hook(hook: HookContext) -> None:  # type: ignore[override]  # as above
        """Count the question, for the next turn."""
        hook.store.put(VISITS, (hook.store.get(VISITS) or 0) + 1)
