"""One agent, and every message is its business."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline import BaseWorkflow

if TYPE_CHECKING:
    from stepline import PayloadLike, TurnResult


class DefaultWorkflow(BaseWorkflow):
    """Answers with the tools that come with the library."""

    tools_module = "bundles.default.tools_descriptor"

    async def process(self, payload: PayloadLike) -> TurnResult:
        """Let the agent answer the message."""
        react = await self.build_react(scratchpad=self.scratchpad)
        return await react.run(payload)
