"""The tools of the shop: one that reads, and one that pays money back, about which the customer is asked first."""

from __future__ import annotations

from typing import Annotated, Any, Final

from examples.shop.orders import REFUNDS, orders_of, refunds_of
from stepline import Tool, ToolContext, ToolError, tool


@tool(
    "shop.list_orders",
    effect="pure",
    read_only=True,
    returns="the orders: number, item, price in euros, date, state; and the refunds by number",
    examples=({},),
    requests=("Which orders do I have?",),
)
def list_orders(context: ToolContext) -> dict[str, Any]:
    """List the customer's orders and their refunds."""
    return {"orders": list(orders_of(context.user).values()), "refunds": refunds_of(context.store)}


@tool(
    "shop.refund",
    approval="always",
    returns="the amount in euros",
    examples=({"number": "A-17", "reason": "It arrived broken."},),
    requests=("Please take order A-17 back, it arrived broken.",),
)
def refund(
    number: Annotated[str, "the order's number, such as A-17"],
    reason: Annotated[str, "the customer's reason, in a sentence"],
    context: ToolContext,
) -> dict[str, float]:
    """Pay the price of an order back to the customer. Read sk:public.returns first."""
    order = orders_of(context.user).get(number)
    if order is None:
        raise ToolError(f"the customer has no order {number}", code="order_not_found")
    refunds = refunds_of(context.store)
    if number in refunds:
        raise ToolError(f"{number} was refunded already", code="refunded_already")
    if context.store is None:
        raise ToolError("a program cannot refund", code="refunds_unavailable")
    context.store.put(REFUNDS, {**refunds, number: order["eur"]})
    context.emit("shop.refunded", {"number": number, "eur": order["eur"], "reason": reason})
    return {"eur": order["eur"]}


TOOLS: Final[tuple[Tool, ...]] = (list_orders, refund)
