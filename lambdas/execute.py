"""Execute: runs one program once."""

from __future__ import annotations

from functools import partial

from lambdas.edge.runtime import once, state, wired
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.program_backend import ProgramBackends
from stepline.loop.programs.execute import execute
from stepline.model.step import Step

app = wired(LoopApp)
backends = once(lambda: ProgramBackends(app()))


@state
def handler(step: Step) -> Step:
    return execute(app().ports, partial(backends().find, bundle=step.bundle), step, app().serve)
