"""The choices of an agent on the local stage, which `stepline up --app` puts into the context of the agent's app."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from constructs import Node

from stepline.errors import InputError
from stepline.local.install.agent_words import CONTEXT
from stepline_cdk.choice.agent import AgentChoices
from stepline_cdk.choice.declare import Choices

_MODELS: Final = frozenset(name for name in AgentChoices.model_fields if name.startswith("model_"))
_ALSO: Final = frozenset(
    ("limits", "prices", "rates", "user_messages_per_minute", "mcp_timeout_s", "mcp_list_ttl_s", "mcp_task_s")
)
KEPT: Final = (AgentChoices.model_fields.keys() - Choices.model_fields.keys() - _MODELS) | _ALSO
"""The props that an agent has on the emulator, too. Its models are those of the caller's environment, as on each local stage."""


class LocalRun(NamedTuple):
    """The agent that the local stage runs, the first one if `agent` is empty, and the choices that the emulator needs."""

    agent: str
    choices: Mapping[str, str]

    def means(self, path: str, *, is_first: bool) -> bool:
        """Return True if the construct at this path is that agent."""
        return path == self.agent if self.agent else is_first

    def choose(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the choices of an agent with these props."""
        kept = {name: value for name, value in given.items() if name in KEPT}
        return {**kept, "keep_data": False, **self.choices}


def read_local_run(node: Node) -> LocalRun | None:
    """Return the local run that an app is synthesised for; None in AWS. Raises InputError `bad_choice`."""
    text = node.try_get_context(CONTEXT)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return LocalRun(agent=found["agent"], choices=dict(found["choices"]))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"context {CONTEXT}: got {str(text)[:80]!r}, takes what `stepline up --app` gives",
            code="bad_choice",
        ) from error
