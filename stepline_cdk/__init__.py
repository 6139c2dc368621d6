"""The construct `Agent`, an agent in a CDK app of your own, and the parts of a stage, one module for each.

Source: docs/how-to/own-app.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepline_cdk.agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> Any:
    """Load the construct when it is used: the choices of a stage are read without the CDK, which takes seconds."""
    if name != "Agent":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stepline_cdk.agent import Agent  # noqa: PLC0415 - as said

    return Agent
