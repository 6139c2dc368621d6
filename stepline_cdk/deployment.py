"""One deployment: its parts, each in a stack of its own, which refers only to earlier ones.

edge ← state ← ingress ← loop
execution              ← loop      where programs run in tasks
               ingress ← page

A local stage has neither edge nor page: its page is served on this machine.

A stack reads the outputs of earlier ones by `Fn::GetStackOutput`, so that any of them may change: an export cannot go while
another stack imports it. The exports themselves stay for stages that 0.1.0 deployed, whose stacks import them until each is
deployed once. Source: docs.aws.amazon.com/cdk, "Reference strength"; docs/how-to/deploy.md#change-it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stepline_cdk.code import Code
from stepline_cdk.names import NAMES
from stepline_cdk.page_files import PageFiles
from stepline_cdk.parts import Parts
from stepline_cdk.stage import Stage

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "edge": "address of the chat page.",
    "state": "logs, artifacts, users.",
    "ingress": "websocket and HTTP API.",
    "exec": "programs of the agent.",
    "loop": "the loop, its sweeper and its eraser.",
    "page": "files of the chat page.",
}
"""The stacks of a stage by the last word of their names, in their order, with what each holds."""
_TRANSITION: Final = "@aws-cdk/core:crossStackReferencesBothTransitional"


class Deployment(Parts):
    """The parts of one stage, and `stacks`, in which they are, by the last word of their names."""

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
        self.stacks: dict[str, cdk.Stack] = {}
        self._app = app
        folder = Path(app.outdir) / "handlers"
        super().__init__(
            self._add_stack, stage, code=code, packages=packages, files=files, derived=derived, folder=folder
        )

    def _add_stack(self, word: str) -> cdk.Stack:
        stack = cdk.Stack(
            self._app,
            NAMES["stack"].render(self.stage.name, word),
            description=f"Stepline: {DESCRIPTIONS[word]}",
        )
        cdk.Annotations.of(stack).acknowledge_warning(_TRANSITION)
        for name, value in self.stage.tags.items():
            cdk.Tags.of(stack).add(name, value)
        if arn := self.stage.permissions_boundary_arn:
            boundary = iam.ManagedPolicy.from_managed_policy_arn(stack, "Boundary", arn)
            iam.PermissionsBoundary.of(stack).apply(boundary)
        self.stacks[word] = stack
        return stack
