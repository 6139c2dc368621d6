"""The words by which the construct `stepline_cdk.Agent` and the command line understand each other."""

from __future__ import annotations

from typing import Final

CONTEXT: Final = "stepline:local"
"""The key of an app's context with its local run: an object with `agent`, a construct's path or "", and `choices`, as text by name."""
AGENT_OUTPUT: Final = "SteplineAgent"
"""The end of the id of the output with an agent's name; the ids of its other outputs begin as this one."""
BUNDLE_OUTPUT: Final = "Bundle"
"""The end of the id of the output with the module of its bundle."""
