"""Act: runs the recorded actions of one round, or starts the task of a state that waits with a token."""

from __future__ import annotations

from lambdas.edge.runtime import Event, edge, follow, wired
from stepline.bootstrap.loop_app import LoopApp
from stepline.loop.act import act
from stepline.loop.programs.remote import start_task
from stepline.model.step import Step

app = wired(LoopApp)


@edge
def handler(event: Event) -> Event:
    if token := event.get("token"):
        return follow(event, lambda step: start_task(app().ports, step, token))
    return follow(event, _act)


def _act(step: Step) -> Step:
    own = app().of(step.bundle)
    return act(own.ports, own.agent, own.history, step)
