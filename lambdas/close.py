"""Close: the end of a turn, or its deferral."""

from __future__ import annotations

from lambdas._runtime import state, wired
from stepline.bootstrap.app import App
from stepline.loop.close import close
from stepline.model.step import Step

app = wired(App)


@state
def handler(step: Step) -> Step:
    return close(app().ports, step)
