"""One agent that answers every message."""

from __future__ import annotations

from stepline import BaseWorkflow


class DefaultWorkflow(BaseWorkflow):
    """Answers with the tools that come with the library."""

    tools_module = "bundles.default.tools_descriptor"
