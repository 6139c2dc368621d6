"""Where a command's words go: what was asked for to standard output, everything else beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stepline.local.client.effect import Effect
    from stepline.local.view import View


def progress(text: str) -> None:
    """Say what we do, beside what was asked for."""
    click.echo(text, err=True)


def make_view(interactive: bool, *, usage: bool = False) -> View:
    """Return the view for a terminal, or for a pipe, where it can show what turns consumed."""
    from stepline.local.view import PlainView, RichView

    if not interactive:
        return PlainView(click.echo, progress, usage=usage)
    from rich.console import Console

    return RichView(Console(markup=False, highlight=False))


def shower(as_json: bool, *, usage: bool = False) -> Callable[[Effect], None]:
    """Return what prints an effect, and for people with `usage` what a turn consumed."""
    if not as_json:
        return make_view(interactive=False, usage=usage).show
    from stepline.local.record import render_effect, render_json

    def show(effect: Effect) -> None:
        for line in render_effect(effect):
            click.echo(render_json(line), err=line["frame"] == "error")

    return show
