"""docs/reference/public-face.md: what bundles, services and clients import from `stepline`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Final

import stepline
from docs.build import DOCS
from stepline import errors, testing

PATH: Final = DOCS / "reference/public-face.md"

GROUPS: Final = {
    "Bundles": (
        *("BaseWorkflow", "PayloadLike", "TurnResult", "Skill", "Knowledge", "Settings", "Lane"),
        *("NamespaceResolver", "PathScope"),
        *("tool", "Tool", "ToolSpec", "ToolContext", "ToolOutput", "search_memory"),
        *("stream_with_channels", "ChannelSpec", "ChannelSubscribers", "CompositeJsonArtifactStreamer"),
        *("ModelService", "system_message", "user_message"),
    ),
    "Services": ("event_source", "EventSource", "follow", "InProcess", "in_memory"),
    "Clients": ("Session", "ClientState"),
}

HEAD: Final = """\
# The public face

The names that authors of bundles, services and clients import from `stepline`. A name is loaded when it is used, so the import
itself costs nothing. Everything else is private to its package and may change. Generated from the docstrings by
`make docs`.

A workflow's agent comes from its method `build_react` ([write a bundle](../how-to/write-a-bundle.md)), an event is sent by
`submit_event` of an `EventSource` ([send events](../how-to/send-events.md)), and a [client](../how-to/client.md) is a `Session`.
"""


TESTING: Final = (
    "From `stepline.testing`; [make a bundle](../how-to/make-a-bundle.md) shows them at work.\n\n"
)

ALIASES: Final = {"PayloadLike": "A payload, or a mapping with its fields."}
"""Names of types, which have no docstrings."""


def render() -> str:
    """Return the page's text."""
    parts = [HEAD]
    parts += [_table(title, "", stepline, names) for title, names in GROUPS.items()]
    parts.append(_table("Tests of a bundle", TESTING, testing, testing.__all__))
    kinds = ", ".join(f"`{name}`" for name in stepline.__all__ if hasattr(errors, name))
    parts.append(f"## Errors\n\n{kinds}. Each has a stable `code`: [errors](errors.md).\n")
    return "\n".join(parts)


def _table(title: str, lead: str, module: ModuleType, names: Iterable[str]) -> str:
    rows = "\n".join(f"| `{name}` | {_first_line(module, name)} |" for name in names)
    return f"## {title}\n\n{lead}| name | description |\n|---|---|\n{rows}\n"


def _first_line(module: ModuleType, name: str) -> str:
    said = ALIASES.get(name) or inspect.getdoc(getattr(module, name)) or ""
    return said.partition("\n")[0].replace("|", "\\|")
