"""The families of Claude models as one table: the fields that each accepts and refuses, and its defaults.

The API refuses a whole request for one field that a model does not support. A model without a family (another
vendor's, or the account's own profile) gets only the fields that the deployment chose for it.

Source: platform.claude.com, the model pages with their migration guides, "Thinking", "Effort", "Prompt
caching", "Versions" and "Claude on Amazon Bedrock (Opus 4.6 and earlier)".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stepline.model.base import Value
from stepline.model.tenancy.price import SCRIPTED
from stepline.ports.model import Effort, RoleChoice, Thinking

ALL: Final[tuple[Effort, ...]] = ("low", "medium", "high", "xhigh", "max")
ABOVE_HIGH: Final = frozenset({"xhigh", "max"})
DEFAULT_TOKENS: Final = 1024
"""The shortest cached prompt of most models."""


class ModelFamily(Value):
    """One family of models.

    `thinking` are the types that it accepts; `budget`: also a fixed number of tokens. `thinks`: it thinks by default.
    `efforts` are its levels, `effort` is the default level. `capped`: it refuses an effort above `high` if thinking is
    switched off. `output_tokens` is the maximum of one answer (0: unknown), `cache_tokens` the shortest prompt that is
    cached. `older`: Bedrock serves it under the API version before 2026-10-21, the last one with sampling parameters.
    """

    thinking: tuple[Thinking, ...] = ()
    budget: bool = False
    thinks: bool = False
    efforts: tuple[Effort, ...] = ()
    effort: Effort = "high"
    capped: bool = False
    output_tokens: int = 0
    cache_tokens: int = DEFAULT_TOKENS
    older: bool = False

    @property
    def off(self) -> Thinking | None:
        """The type that switches its thinking off; None if none does, or if it does not think by default."""
        return next((kind for kind in self.thinking if kind != "adaptive"), None) if self.thinks else None


def _current(
    *thinking: Thinking, effort: Effort = "high", capped: bool = False, cache: int = 512
) -> ModelFamily:
    """Return a family that thinks by default."""
    return ModelFamily(
        thinking=thinking,
        thinks=True,
        efforts=ALL,
        effort=effort,
        capped=capped,
        output_tokens=128_000,
        cache_tokens=cache,
    )


def _budget(*efforts: Effort, output: int = 64_000, cache: int = DEFAULT_TOKENS) -> ModelFamily:
    """Return a family that thinks only with a fixed budget."""
    return ModelFamily(budget=True, efforts=efforts, output_tokens=output, cache_tokens=cache, older=True)


UNKNOWN_FAMILY: Final = ModelFamily()
MODEL_FAMILIES: Final[Mapping[str, ModelFamily]] = MappingProxyType(
    {
        # By the beginning of the model's name; the first match applies, so a version precedes its family.
        "claude-fable-": _current("adaptive"),
        "claude-mythos-preview": ModelFamily(
            thinking=("adaptive",),
            thinks=True,
            efforts=("low", "medium", "high", "max"),
            output_tokens=128_000,
            cache_tokens=2048,
        ),
        "claude-mythos-": _current("adaptive"),
        "claude-opus-5-5": _current("adaptive", effort="medium"),
        "claude-opus-5": _current("adaptive", "disabled", capped=True),
        "claude-sonnet-5-5": _current("adaptive", "between_tools", capped=True),
        "claude-sonnet-5": _current("adaptive", "disabled", cache=1024),
        "claude-haiku-5-5": _current("adaptive", "disabled", effort="medium", capped=True),
        "claude-opus-4-8": ModelFamily(
            thinking=("adaptive", "disabled"), efforts=ALL, output_tokens=128_000, cache_tokens=1024
        ),
        "claude-opus-4-7": ModelFamily(
            thinking=("adaptive", "disabled"), efforts=ALL, output_tokens=128_000, cache_tokens=2048
        ),
        "claude-opus-4-6": ModelFamily(
            thinking=("adaptive", "disabled"),
            budget=True,
            efforts=("low", "medium", "high", "max"),
            output_tokens=128_000,
            cache_tokens=4096,
            older=True,
        ),
        "claude-sonnet-4-6": ModelFamily(
            thinking=("adaptive", "disabled"),
            budget=True,
            efforts=("low", "medium", "high", "max"),
            output_tokens=128_000,
            older=True,
        ),
        "claude-opus-4-5": _budget("low", "medium", "high", cache=4096),
        "claude-haiku-4-5": _budget(cache=4096),
        "claude-sonnet-4": _budget(),
        "claude-opus-4": _budget(output=32_000),
        # The local stage calls its scripted model like claude-sonnet-5-5.
        SCRIPTED: _current("adaptive", "between_tools", capped=True),
    }
)
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


def family_of(model: str) -> ModelFamily:
    """Return the family of a model. Bedrock's ids contain the provider's own after `anthropic.`."""
    name = bare_name(model)
    return next(
        (family for prefix, family in MODEL_FAMILIES.items() if name.startswith(prefix)), UNKNOWN_FAMILY
    )


def bare_name(model: str) -> str:
    """Return the name of a model without the region and the provider that Bedrock puts before it."""
    return model.rpartition("anthropic.")[2]


def cache_minimum(model: str, own: Mapping[str, int] = _NONE) -> int:
    """Return the minimum length of a model's cached prompt, in tokens; a deployment's `own` values come first."""
    name = bare_name(model)
    known = family_of(model).cache_tokens
    return next((tokens for prefix, tokens in own.items() if name.startswith(prefix)), known)


def find_refusals(role: RoleChoice) -> list[str]:
    """Return the choices for a role that its model refuses, one sentence each."""
    family, name, thinking = family_of(role.named), role.named, role.thinking
    if family is UNKNOWN_FAMILY:
        return []
    found = []
    if isinstance(thinking, int) and not family.budget:
        found.append(f"{name} takes no budget for thinking")
    elif isinstance(thinking, int) and role.max_tokens and role.max_tokens <= thinking:
        found.append(f"max_tokens of {role.max_tokens} leaves no room after a thinking budget of {thinking}")
    elif isinstance(thinking, str) and thinking not in family.thinking:
        takes = ", ".join(family.thinking) or "a budget in tokens"
        found.append(f"{name} refuses thinking {thinking}; it takes {takes}")
    if role.effort and role.effort not in family.efforts:
        found.append(f"{name} refuses effort {role.effort}; it takes {', '.join(family.efforts) or 'none'}")
    elif role.effort in ABOVE_HIGH and family.capped and thinking in ("disabled", "between_tools"):
        found.append(f"{name} refuses effort {role.effort} with thinking {thinking}")
    if family.output_tokens and (role.max_tokens or 0) > family.output_tokens:
        found.append(f"max_tokens of {role.max_tokens} is above the {family.output_tokens} of {name}")
    return found
