"""Close: ends or defers a turn, and runs the bundle's hook after the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambdas.edge.runtime import once, state, wired
from stepline.bootstrap.app import App
from stepline.loop.close import close
from stepline.model.step import Step

if TYPE_CHECKING:
    from stepline.bootstrap.loop_app import LoopApp

app = wired(App)


@once
def loop_app() -> LoopApp:
    """Return the app of the bundles, created after a turn's end: users wait for the end, and few bundles have a hook."""
    from stepline.bootstrap.loop_app import LoopApp  # noqa: PLC0415 - as above

    return LoopApp.over(app())


@state
def handler(step: Step) -> Step:
    following = close(app().ports, step)
    # A turn of a bundle that the stage no longer has ends as well.
    if following.route == "done" and step.bundle in ("", *app().settings.bundles):
        own = loop_app().of(step.bundle)
        if agent := own.follower():
            from stepline.loop.hooks.run_hook import follow_turn  # noqa: PLC0415 - few bundles have a hook here

            follow_turn(own.ports, agent, own.history, following)
    return following
