"""One deployment: its stacks, each of which refers only to earlier ones.

state ← ingress ← loop
execution       ← loop      where programs run in tasks
"""

from __future__ import annotations

import aws_cdk as cdk

from stacks.code import Code
from stacks.execution import ExecutionStack
from stacks.ingress import IngressStack
from stacks.loop import LoopStack
from stacks.stage import Stage
from stacks.state import StateStack


class Deployment:
    """The stacks of one stage."""

    def __init__(self, app: cdk.App, stage: Stage, *, code: Code, packages: tuple[str, ...]) -> None:
        """Add the stacks to the app. `packages` are those that programs of the agent may import."""
        self.stage = stage
        self.state = StateStack(app, stage)
        self.ingress = IngressStack(app, stage, state=self.state, code=code)
        self.execution = (
            ExecutionStack(app, stage, requirements=code.requirements) if stage.has_tasks else None
        )
        self.loop = LoopStack(
            app,
            stage,
            state=self.state,
            ingress=self.ingress,
            code=code,
            packages=packages,
            execution=self.execution,
        )

    @property
    def stacks(self) -> list[cdk.Stack]:
        """All stacks, in order of creation."""
        found = [self.state, self.ingress, self.execution, self.loop]
        return [stack for stack in found if stack is not None]
