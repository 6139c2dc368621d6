"""Close: ends or defers a turn, and runs the bundle's hook after the end."""

from __future__ import annotations

from lambdas._runtime import state, wired
from stepline.bootstrap.loop_app import LoopApp
from stepline.loop.close import close
from stepline.model.step import Step

app = wired(LoopApp)


@state
def handler(step: Step) -> Step:
    following = close(app().ports, step)
    # A turn of a bundle that the stage no longer has ends as well.
    own = app().of(step.bundle) if step.bundle in ("", *app().settings.bundles) else None
    if following.route == "done" and own and (agent := own.follower()):
        from stepline.loop.hooks.run_hook import follow_turn  # noqa: PLC0415 - few bundles have a hook here

        follow_turn(own.ports, agent, own.history, following)
    return following
