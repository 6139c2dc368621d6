"""The tools of the shop: one that reads, and one that pays money back, about which the customer is asked first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from examples.shop.orders import REFUNDS, orders_of, refunds_of
from stepline import Tool, ToolContext, ToolError, ToolOutput, ToolSpec

LIST_ORDERS: Final = ToolSpec(
    tool_id="shop.list_orders",
    purpose="List the customer's orders and their refunds.",
    schema={"type": "object", "additionalProperties": False, "properties": {}},
    returns="the orders: number, item, price in euros, date, state; and the refunds by number",
    effect="pure",
    read_only=True,
)
REFUND: Final = ToolSpec(
    tool_id="shop.refund",
    purpose="Pay the price of an order back to the customer. Read sk:public.returns first.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["number", "reason"],
        "properties": {
            "number": {"type": "string", "description": "the order's number, such as A-17"},
            "reason": {"type": "string", "description": "the customer's reason, in a sentence"},
        },
    },
    returns="the amount in euros",
    effect="once",
    read_only=False,
    approval="always",
    examples=({"number": "A-17", "reason": "It arrived broken."},),
)


def run_list_orders(_: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """List the orders of the conversation's owner."""
    facts = {"orders": list(orders_of(context.user).values()), "refunds": refunds_of(context.store)}
    return ToolOutput(blocks=(context.result(LIST_ORDERS.tool_id, facts),))


def run_refund(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Refund an order once. Raises ToolError: `order_not_found`, `refunded_already`, `refunds_unavailable`."""
    number = params["number"]
    order = orders_of(context.user).get(number)
    if order is None:
        raise ToolError(f"the customer has no order {number}", code="order_not_found")
    refunds = refunds_of(context.store)
    if number in refunds:
        raise ToolError(f"{number} was refunded already", code="refunded_already")
    if context.store is None:
        raise ToolError("a program cannot refund", code="refunds_unavailable")
    context.store.put(REFUNDS, {**refunds, number: order["eur"]})
    context.emit("shop.refunded", {"number": number, "eur": order["eur"], "reason": params["reason"]})
    return ToolOutput(blocks=(context.result(REFUND.tool_id, {"status": "ok", "eur": order["eur"]}),))


TOOLS: Final[Sequence[Tool]] = (
    Tool(spec=LIST_ORDERS, run=run_list_orders),
    Tool(spec=REFUND, run=run_refund),
)
