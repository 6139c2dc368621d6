"""One decision of the model."""

from __future__ import annotations

import stepline.loop.decide  # noqa: F401 - loaded while the function starts, and not by its first round
from lambdas._runtime import app, state
from stepline.model.step import Step


@state
def handler(step: Step) -> Step:
    return app().decide(step)
