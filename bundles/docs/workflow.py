"""An agent that knows this repository's README and pages."""

from __future__ import annotations

from pathlib import Path

from stepline import BaseWorkflow, Knowledge


class DocsWorkflow(BaseWorkflow):
    """Answers from the documents that `knowledge.yaml` names, and cites them."""

    knowledge = Knowledge(Path(__file__).parent)
