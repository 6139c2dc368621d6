"""Decide: makes one decision of the model; or, for the API, a replay of one, which changes no conversation."""

from __future__ import annotations

from lambdas.edge.runtime import Event, edge, follow, wired
from stepline.bootstrap.loop_app import LoopApp
from stepline.loop.decide import decide
from stepline.model.step import Step

app = wired(LoopApp)


@edge
def handler(event: Event) -> Event:
    """In: `{step, attempt}` of a state, out: the next step; or `{replay}` of the API, out: its state."""
    if "replay" in event:
        from lambdas.edge.replay import make_replay  # noqa: PLC0415 - no turn needs it

        return make_replay(app(), event["replay"])
    return follow(event, run)


def run(step: Step) -> Step:
    """Return the step that follows a decision."""
    own = app().of(step.bundle)
    return decide(own.ports, own.agent, own.model, own.history, step)
