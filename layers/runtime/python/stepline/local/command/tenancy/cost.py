"""`stepline cost`: what a conversation has cost, by turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stepline.local.command.argument import (
    conversation_argument,
    json_option,
    stage_option,
    token_option,
    user_option,
)
from stepline.local.safe_text import clean_line, one_line

if TYPE_CHECKING:
    from stepline.local.caller import Caller

CENT: Final = 0.01
CLASSES: Final = {
    "input_tokens": "in",
    "cache_read_tokens": "cached",
    "cache_write_5m_tokens": "written for 5 min",
    "cache_write_1h_tokens": "written for 1 h",
    "output_tokens": "out",
}
"""The classes of tokens of a line, in the order in which they are shown."""


@click.command()
@conversation_argument
@user_option
@stage_option
@token_option
@json_option
def cost(*, conversation: str, user: str, stage: str, token_command: str, as_json: bool) -> None:
    """Show what a conversation has cost: models and AWS, by turn.

    Tokens are told by the role that asked, the model that answered and the class of the cache. Dollars of models are those of the
    day of the call, dollars of AWS the list prices of the units that its functions used. With --json each turn is one line, and
    the conversation's sum is the last.
    """
    from stepline.local.command.conversations import find_caller
    from stepline.local.terminal.json_lines import render_json

    found = read_receipts(find_caller(stage, user, token_command), conversation)
    if as_json:
        for turn in found["turns"]:
            click.echo(render_json(turn))
        click.echo(render_json({name: value for name, value in found.items() if name != "turns"}))
        return
    for line in render_cost(found):
        click.echo(line)


def read_receipts(caller: Caller, conversation: str) -> dict[str, Any]:
    """Return the receipts of a conversation. Raises InputError `not_deployed`; NotFoundError."""
    from contextlib import closing

    import msgspec

    from stepline.errors import InputError
    from stepline.local.client.http_api import HttpApi

    if not caller.api_url:
        raise InputError("the address of the HTTP API is not known here", code="not_deployed")
    with closing(HttpApi(caller.api_url, caller.token)) as api:
        found: dict[str, Any] = msgspec.to_builtins(api.get_receipts(conversation))
    return found


def render_cost(receipts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the receipts as lines: each turn with its calls and its part of AWS, and the sum."""
    for turn in receipts["turns"]:
        yield clean_line(f"{one_line(turn['turn_id'])}  {_sums(turn)}")
        yield from _lines(turn["lines"])
        yield from _aws(turn["aws"])
        if missed := turn["attempts_unreported"]:
            yield f"  {missed} attempt{'s' if missed > 1 else ''} did not report what {'they' if missed > 1 else 'it'} used of AWS"
    yield f"together  {_sums(receipts)}"


def _sums(one: Mapping[str, Any]) -> str:
    more = "" if one["priced"] else " and calls without a known price"
    return f"models {_price(one)}{more}, AWS {_usd(one['aws_usd'])}"


def _lines(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for line in lines:
        told = ", ".join(f"{line[name]:,} {word}" for name, word in CLASSES.items() if line[name])
        about = "about " if line["estimated"] else ""
        calls = f"{line['calls']} call{'s' if line['calls'] != 1 else ''}"
        price = _price(line) if line["priced"] else "no known price"
        yield clean_line(
            f"  {one_line(line['role'])} {one_line(line['model'])}: {calls}, {about}{told}: {price}"
        )


def _aws(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for line in lines:
        yield clean_line(f"  AWS {one_line(line['what'])}: {line['quantity']:,.6g}: {_usd(line['usd'])}")


def _price(one: Mapping[str, Any]) -> str:
    return "free" if one["priced"] and not one["usd"] else _usd(one["usd"])


def _usd(usd: float) -> str:
    return f"${usd:.6f}" if 0 < usd < CENT else f"${usd:,.4f}"
