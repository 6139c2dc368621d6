"""One deployment: its stacks, each of which refers only to earlier ones.

edge ← state ← ingress ← loop
execution              ← loop      where programs run in tasks
               ingress ← page

A local stage has neither edge nor page: its page is served on this machine.

A stack reads the outputs of earlier ones by `Fn::GetStackOutput`, so that any of them may change: an export cannot go while
another stack imports it. The exports themselves stay for stages that 0.1.0 deployed, whose stacks import them until each is
deployed once. Source: docs.aws.amazon.com/cdk, "Reference strength"; docs/how-to/deploy.md#change-it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

import aws_cdk as cdk

from stacks.code import Code
from stacks.edge import EdgeStack
from stacks.environment import packaged_files
from stacks.execution import ExecutionStack
from stacks.ingress import IngressStack
from stacks.loop import LoopStack
from stacks.page import PageStack
from stacks.page_files import PageFiles
from stacks.stage import Stage
from stacks.state import StateStack

_TRANSITION: Final = "@aws-cdk/core:crossStackReferencesBothTransitional"


class Deployment:
    """The stacks of one stage."""

    def __init__(
        self,
        app: cdk.App,
        stage: Stage,
        *,
        code: Code,
        packages: tuple[str, ...],
        files: PageFiles | None = None,
        derived: Collection[str] = (),
    ) -> None:
        """Add the stacks to the app. `packages` are those that programs of the agent may import, `files` the chat page's.

        `derived` are choices that the command read from the account: the stage does not record them.
        """
        self.stage = stage
        code = code.holding(packaged_files(stage), Path(app.outdir) / "handlers")
        self.edge = EdgeStack(app, stage, files) if files else None
        page_origin = self.edge.origin if self.edge else ""
        self.state = StateStack(app, stage, page_origin=page_origin, derived=derived)
        self.ingress = IngressStack(
            app,
            stage,
            state=self.state,
            code=code,
            page_origin=page_origin,
            dashboards=files.dashboards if files else (),
        )
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
        self.page = (
            PageStack(app, stage, files=files, edge=self.edge, state=self.state, ingress=self.ingress)
            if files and self.edge
            else None
        )

        for stack in self.stacks:
            cdk.Annotations.of(stack).acknowledge_warning(_TRANSITION)

    @property
    def stacks(self) -> list[cdk.Stack]:
        """All stacks, in order of creation."""
        found = [self.edge, self.state, self.ingress, self.execution, self.loop, self.page]
        return [stack for stack in found if stack is not None]
