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
    from stepline.local.terminal import clean

    click.echo(clean(text), err=True)


def make_plain_view(*, usage: bool = False, local: bool = False) -> View:
    """Return the view for a pipe, where it can show what turns consumed; `local` as for `PlainView`."""
    from stepline.local.view import PlainView

    return PlainView(click.echo, progress, usage=usage, local=local)


def shower(as_json: bool, *, usage: bool = False, local: bool = False) -> Callable[[Effect], None]:
    """Return what prints an effect, and for people with `usage` what a turn consumed."""
    if not as_json:
        return make_plain_view(usage=usage, local=local).show
    from stepline.local.record import render_effect, render_json

    def show(effect: Effect) -> None:
        for line in render_effect(effect):
            click.echo(render_json(line), err=line["frame"] == "error")

    return show
