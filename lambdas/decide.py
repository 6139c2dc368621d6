"""Decide: makes one decision of the model."""

from __future__ import annotations

from lambdas.edge.runtime import state, wired
from stepline.bootstrap.loop_app import LoopApp
from stepline.loop.decide import decide
from stepline.model.step import Step

app = wired(LoopApp)


@state
def handler(step: Step) -> Step:
    own = app().of(step.bundle)
    return decide(own.ports, own.agent, own.model, own.history, step)
