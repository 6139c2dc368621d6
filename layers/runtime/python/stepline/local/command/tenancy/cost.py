"""`stepline cost`: the cost of a conversation, by turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stepline.local.command.argument import Login, conversation_argument, json_option, login_options, naming
from stepline.local.counted import counted
from stepline.local.safe_text import clean_line, one_line

if TYPE_CHECKING:
    from stepline.local.caller import Caller

CENT: Final = 0.01
CLASSES: Final = {
    "input_tokens": "in",
    "cache_read_tokens": "cached",
    "cache_write_5m_tokens": "written to the cache for 5 min",
    "cache_write_1h_tokens": "written to the cache for 1 h",
    "output_tokens": "out",
}
"""The classes of tokens in a line, in display order."""


@click.command()
@conversation_argument
@login_options
@json_option
def cost(*, conversation: str, login: Login, as_json: bool) -> None:
    """Show the cost of a conversation by turn: models and AWS.

    Tokens are listed by role, model and cache class. Model dollars use the prices of the day of the call, AWS dollars the list
    prices of what the functions used. With --json each turn is one line, and the last line is the total of the conversation.
    """
    from stepline.local.terminal.json_lines import render_json_line

    found = read_receipts(login.caller(), conversation)
    if as_json:
        for turn in found["turns"]:
            click.echo(render_json_line(turn))
        click.echo(render_json_line({name: value for name, value in found.items() if name != "turns"}))
        return
    for line in render_receipts(found):
        click.echo(line)


def read_receipts(caller: Caller, conversation: str) -> dict[str, Any]:
    """Return the receipts of a conversation. Raises InputError `not_deployed`; NotFoundError."""
    from contextlib import closing

    import msgspec

    from stepline.local.caller import open_api

    with closing(open_api(caller)) as api, naming(conversation):
        found: dict[str, Any] = msgspec.to_builtins(api.get_receipts(conversation))
    return found


def render_receipts(receipts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the receipts as lines: each turn with its calls and its share of AWS, each replayed round, and the sum."""
    for turn in receipts["turns"]:
        yield clean_line(f"{one_line(turn['turn_id'])}  {_sums(turn)}")
        yield from _lines(turn["lines"])
        yield from _aws(turn["aws"])
        if missed := turn["attempts_unreported"]:
            yield f"  {counted(missed, 'attempt')} did not report the usage of AWS"
    yield from _replays(receipts.get("replays", ()))
    if before := receipts.get("turns_before"):
        yield f"{counted(before, 'turn')} of the original not counted"
    yield f"total  {_sums(receipts)}"


def _sums(one: Mapping[str, Any]) -> str:
    more = "" if one["priced"] else " and calls without a known price"
    return f"models {_price(one)}{more}, AWS {_usd(one['aws_usd'])}"


def _lines(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for line in lines:
        calls = f"{line['calls']} call{'s' if line['calls'] != 1 else ''}"
        price = _price(line) if line["priced"] else "no known price"
        yield clean_line(
            f"  {one_line(line['role'])} {one_line(line['model'])}: {calls}, {_tokens(line)}: {price}"
        )


def _replays(replays: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for replay in replays:
        usd = replay["usd"]
        price = "no known price" if usd is None else _price({"priced": True, "usd": usd})
        yield clean_line(f"replayed round, {one_line(replay['model'])}: {_tokens(replay['tokens'])}: {price}")


def _tokens(used: Mapping[str, Any]) -> str:
    tokens = ", ".join(f"{used[name]:,} {word}" for name, word in CLASSES.items() if used[name])
    return f"about {tokens}" if used["estimated"] else tokens


def _aws(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for line in lines:
        yield clean_line(f"  AWS {one_line(line['what'])}: {line['quantity']:,.6g}: {_usd(line['usd'])}")


def _price(one: Mapping[str, Any]) -> str:
    return "free" if one["priced"] and not one["usd"] else _usd(one["usd"])


def _usd(usd: float) -> str:
    return f"${usd:.6f}" if 0 < usd < CENT else f"${usd:,.4f}"
