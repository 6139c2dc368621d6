"""Act: the recorded actions of one round."""

from __future__ import annotations

from lambdas._runtime import state, wired
from stepline.bootstrap.loop_app import LoopApp
from stepline.loop.act import act
from stepline.model.step import Step

app = wired(LoopApp)


@state
def handler(step: Step) -> Step:
    return act(app().ports, app().agent, app().history, step)
