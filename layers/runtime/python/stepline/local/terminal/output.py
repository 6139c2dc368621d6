"""Output of commands: results to standard output, everything else to standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    from stepline.local.client.change import Effect
    from stepline.local.stage.lifecycle import StageStatus
    from stepline.local.terminal.turn_view import TerminalView


def progress(text: str) -> None:
    """Print a progress message to standard error."""
    from stepline.local.safe_text import clean

    click.echo(clean(text), err=True)


def make_plain_view(*, usage: bool = False, local: bool = False) -> TerminalView:
    """Return the view for a pipe, with `usage` of turns on request; `local` as for `PlainView`."""
    from stepline.local.terminal.turn_view import PlainView

    return PlainView(click.echo, progress, usage=usage, local=local)


class JsonView:
    """One JSON object per line: client effects, and errors."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Do nothing: there is nothing to close."""

    def show(self, effect: Effect) -> None:
        from stepline.local.terminal.json_lines import render_effect, render_json_line

        for line in render_effect(effect):
            click.echo(render_json_line(line), err=line["frame"] == "error")

    def say(self, text: str) -> None:
        progress(text)

    def echo(self, line: str) -> None:
        """Do nothing: there is no prompt."""


def shower(as_json: bool, *, usage: bool = False, local: bool = False) -> Callable[[Effect], None]:
    """Return a function that prints an effect, as text with the turn's `usage` on request, or as JSON."""
    return JsonView().show if as_json else make_plain_view(usage=usage, local=local).show


def print_result(value: Any, text: str, *, as_json: bool) -> None:
    """Print a result: the value as a line of JSON, or the line of text."""
    import msgspec

    from stepline.local.safe_text import clean_line
    from stepline.local.terminal.json_lines import render_json_line

    click.echo(render_json_line(msgspec.to_builtins(value)) if as_json else clean_line(text))


def render_status(found: StageStatus) -> str:
    """Return one line of JSON: the running services, and the stage that was deployed last."""
    import msgspec

    from stepline.local.terminal.json_lines import render_json_line

    return render_json_line(
        msgspec.to_builtins({"up": found.up, "services": found.services, "stage": found.stage})
    )
