"""The policy of approvals: which calls of an agent need a person.

    a tool's id           `mail.send`
    a prefix of ids       `mcp.crm.*`; `*` matches every tool
    an effect class       `effect:once`

Within a source, the most specific key applies: an id before a prefix, a longer prefix before a shorter one, a prefix
before an effect, and `*` last. The sources, strongest first: the deployment's setting, the bundle's properties, the
assembly, the tool itself. A foreign server cannot lower the requirement for its own tool: its effect counts as `once`.
Source: docs/how-to/ask-a-person-first.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast, get_args

from stepline.errors import InputError
from stepline.loop.agent import own_rule
from stepline.model.decision import ApprovalRule
from stepline.tools.spec import ToolSpec

Rules: TypeAlias = Mapping[str, ApprovalRule]

EFFECT: Final = "effect:"
_KEY: Final = re.compile(r"effect:(?:pure|keyed|once)|[A-Za-z0-9_./-]{1,200}\*?|\*")


@dataclass(frozen=True, kw_only=True)
class ApprovalPolicy:
    """The rules of each source, strongest first."""

    places: tuple[Rules, ...] = ()

    def rule_of(self, spec: ToolSpec) -> ApprovalRule:
        """Return the rule for a tool's calls; `never` if nothing says otherwise."""
        found = (rules[key] for rules in self.places for key in _keys(spec, rules))
        return next(found, own_rule(spec))


def _keys(spec: ToolSpec, rules: Rules) -> list[str]:
    """Return the keys that match a tool, the most specific first."""
    prefixes = [key for key in rules if key.endswith("*") and spec.tool_id.startswith(key[:-1])]
    prefixes.sort(key=len, reverse=True)
    narrow, wide = [key for key in prefixes if key != "*"], [key for key in prefixes if key == "*"]
    effect = "once" if spec.claimed else spec.effect
    return [key for key in (spec.tool_id, *narrow, f"{EFFECT}{effect}", *wide) if key in rules]


def read_rules(value: Any, place: str) -> Rules:
    """Return the rules that a setting or a descriptor has. Raises InputError `bad_setting`, naming the place."""
    if not isinstance(value, Mapping):
        raise InputError(f"{place} is not a mapping of tools to rules", code="bad_setting")
    for key, rule in value.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise InputError(
                f"{place}: {str(key)[:80]!r} is no tool id, no prefix that ends in `*`, and no `effect:<class>`",
                code="bad_setting",
            )
        if rule not in get_args(ApprovalRule):
            raise InputError(
                f"{place}: the rule of {key} is none of {', '.join(get_args(ApprovalRule))}",
                code="bad_setting",
            )
    return cast("Rules", dict(value))
