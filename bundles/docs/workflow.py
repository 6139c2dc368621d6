"""An agent that knows this repository's README and pages."""

from __future__ import annotations

from pathlib import Path

from stepline import BaseWorkflow, Knowledge


class DocsWorkflow(BaseWorkflow):
    """Answers from the documents that `knowledge.yaml` names, and cites them."""

    knowledge = Knowledge(
        Path(__file__).parent,
        requests=(
            "What does the cost page say about idle cost?",
            "What does the glossary say about a batch?",
            "Look up full-width forms of a citation.",
        ),
    )
