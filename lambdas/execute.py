"""One run of one program."""

from __future__ import annotations

from lambdas._runtime import app, state
from stepline.model.step import Step


@state
def handler(step: Step) -> Step:
    return app().execute(step)
