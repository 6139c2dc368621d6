"""Where a command's words go: what was asked for to standard output, everything else beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from stepline.local.client.change import Effect
    from stepline.local.stage.lifecycle import Status
    from stepline.local.terminal.turn_view import View


def progress(text: str) -> None:
    """Say what we do, beside what was asked for."""
    from stepline.local.safe_text import clean

    click.echo(clean(text), err=True)


def make_plain_view(*, usage: bool = False, local: bool = False) -> View:
    """Return the view for a pipe, where it can show what turns consumed; `local` as for `PlainView`."""
    from stepline.local.terminal.turn_view import PlainView

    return PlainView(click.echo, progress, usage=usage, local=local)


class JsonView:
    """One JSON object a line: what clients apply, and errors beside it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Nothing was opened."""

    def show(self, effect: Effect) -> None:
        from stepline.local.terminal.json_lines import render_effect, render_json

        for line in render_effect(effect):
            click.echo(render_json(line), err=line["frame"] == "error")

    def say(self, text: str) -> None:
        progress(text)

    def echo(self, line: str) -> None:
        """Say nothing: it is not typed at a prompt."""


def shower(as_json: bool, *, usage: bool = False, local: bool = False) -> Callable[[Effect], None]:
    """Return what prints an effect, and for people with `usage` what a turn consumed."""
    return JsonView().show if as_json else make_plain_view(usage=usage, local=local).show


def render_status(found: Status) -> str:
    """Return one line of JSON: what runs on this machine, and the stage that was deployed last."""
    import msgspec

    from stepline.local.terminal.json_lines import render_json

    return render_json(
        msgspec.to_builtins({"up": found.up, "services": found.services, "stage": found.stage})
    )
