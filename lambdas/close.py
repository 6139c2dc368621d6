"""The end of a turn, or its deferral."""

from __future__ import annotations

from lambdas._runtime import app, count, state
from stepline.metrics import TURNS_CLOSED, TURNS_FAILED
from stepline.model.step import Step


@state
def handler(step: Step) -> Step:
    following = app().close(step)
    if following.route == "done":
        count(TURNS_FAILED if step.error else TURNS_CLOSED)
    return following
