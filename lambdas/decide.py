"""One decision of the model."""

from __future__ import annotations

from lambdas._runtime import app, count, state
from stepline.metrics import ROUNDS_DECIDED
from stepline.model.step import Step


@state
def handler(step: Step) -> Step:
    following = app().decide(step)
    count(ROUNDS_DECIDED)
    return following
