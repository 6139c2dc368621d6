"""docs/reference/public-face.md: the public names of `stepline`, of `stepline_cdk`, and of the npm packages."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

import stepline
from docs.build import DOCS
from stepline import errors, testing

PATH: Final = DOCS / "reference/public-face.md"

GROUPS: Final = {
    "Bundles": (
        *(
            "BaseWorkflow",
            "HookContext",
            "PayloadLike",
            "TurnResult",
            "ProgramCalls",
            "Skill",
            "Knowledge",
            "Settings",
            "Lane",
        ),
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
itself costs nothing. After them come the [construct](#the-construct) and the [npm packages](#npm-packages). Everything else is
private to its package and may change; [versions](versions.md) says when these may. Generated from the sources by `make docs`.

A workflow's agent comes from its method `build_react` ([write a bundle](../how-to/write-a-bundle.md)), an event is sent by
`submit_event` of an `EventSource` ([send events](../how-to/send-events.md)), and a [client](../how-to/client.md) is a `Session`.
"""


TESTING: Final = (
    "From `stepline.testing`; [make a bundle](../how-to/make-a-bundle.md) shows them at work.\n\n"
)

ALIASES: Final = {"PayloadLike": "A payload, or a mapping with its fields."}
"""Names of types, which have no docstrings."""

CONSTRUCT: Final = DOCS.parent / "stepline_cdk"
PACKAGES: Final = DOCS.parent / "web/packages"
_REEXPORT: Final = re.compile(r'^export (type )?(\*|\{[^}]*\}) from "([^"]+)";', re.MULTILINE)
_DECLARED: Final = re.compile(r"^export (?:async )?(const|function|class|interface|type) (\w+)", re.MULTILINE)
_TYPES: Final = ("interface", "type")


def render() -> str:
    """Return the page's text."""
    parts = [HEAD]
    parts += [_table(title, "", stepline, names) for title, names in GROUPS.items()]
    parts.append(_table("Tests of a bundle", TESTING, testing, testing.__all__))
    kinds = ", ".join(f"`{name}`" for name in stepline.__all__ if hasattr(errors, name))
    parts.append(f"## Errors\n\n{kinds}. Each has a stable `code`: [errors](errors.md).\n")
    parts.append(_construct())
    parts.append(_npm())
    return "\n".join(parts)


def _construct() -> str:
    """Return the part about the construct, read without the CDK, which takes seconds to load."""
    agent = _class_of(CONSTRUCT / "agent.py", "Agent")
    functions = [node for node in agent.body if isinstance(node, ast.FunctionDef)]
    props, names = construct_props()
    rows = [
        f"| `{_signature(node)}` | {(ast.get_docstring(node) or '').partition(chr(10))[0]} |"
        for node in functions
        if not node.name.startswith("_")
    ]
    return "\n".join(
        [
            "## The construct\n",
            "`stepline_cdk.Agent`; [an agent in a CDK app of your own](../how-to/own-app.md) shows it at work. Its attribute `parts` is",
            "for overrides: what it holds may change.\n",
            f"Props: {_quote(props)}.\n",
            f"Props that are [choices of a stage](choices.md): {_quote(names)}.\n",
            "| attribute, method | description |\n|---|---|",
            *rows,
            "",
        ]
    )


def construct_props() -> tuple[list[str], list[str]]:
    """Return the props of the construct: its own, and those that are choices of a stage."""
    agent = _class_of(CONSTRUCT / "agent.py", "Agent")
    (made,) = (node for node in agent.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    choices = _class_of(CONSTRUCT / "choice_props.py", "ChoiceProps")
    names = [
        one.target.id
        for one in choices.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    return [one.arg for one in made.args.kwonlyargs], names


def _class_of(path: Path, name: str) -> ast.ClassDef:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return found


def _signature(node: ast.FunctionDef) -> str:
    if any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
        return node.name
    return f"{node.name}({', '.join(one.arg for one in node.args.args[1:])})"


def _npm() -> str:
    parts = ["## npm packages\n"]
    for name in ("client", "ai-sdk", "ag-ui"):
        values, types = exports_of(PACKAGES / name / "index.ts")
        parts.append(
            f"`@stepline/{name}`: {_quote(sorted(values))}. Types: {_quote(sorted(types - values))}.\n"
        )
    return "\n".join(parts)


def exports_of(module: Path) -> tuple[set[str], set[str]]:
    """Return the names of the values and of the types that a module of TypeScript exports; a class is a value."""
    text = module.read_text(encoding="utf-8")
    values = {name for kind, name in _DECLARED.findall(text) if kind not in _TYPES}
    types = {name for kind, name in _DECLARED.findall(text) if kind in _TYPES}
    for only_types, listed, source in _REEXPORT.findall(text):
        if listed == "*":
            found_values, found_types = exports_of((module.parent / source).resolve())
            values |= set() if only_types else found_values
            types |= found_types
            continue
        for one in filter(None, (word.strip() for word in listed.strip("{}").split(","))):
            (types if only_types or one.startswith("type ") else values).add(one.removeprefix("type "))
    return values, types


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(title: str, lead: str, module: ModuleType, names: Iterable[str]) -> str:
    rows = "\n".join(f"| `{name}` | {_first_line(module, name)} |" for name in names)
    return f"## {title}\n\n{lead}| name | description |\n|---|---|\n{rows}\n"


def _first_line(module: ModuleType, name: str) -> str:
    said = ALIASES.get(name) or inspect.getdoc(getattr(module, name)) or ""
    return said.partition("\n")[0].replace("|", "\\|")
