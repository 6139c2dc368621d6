"""How long a prompt must be before its provider keeps it, by the beginning of the model's name.

Source: platform.claude.com, "Prompt caching".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DEFAULT_TOKENS: Final = 1024
MINIMUM_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {
        # The first that fits counts: a version stands before the family it belongs to.
        "claude-opus-4-8": 1024,
        "claude-opus-4-7": 2048,
        "claude-opus-4-6": 4096,
        "claude-opus-4-5": 4096,
        "claude-opus-4": 1024,
        "claude-opus-5": 512,
        "claude-fable-5": 512,
        "claude-mythos-5": 512,
        "claude-mythos-preview": 2048,
        "claude-haiku-4-5": 4096,
        "claude-haiku-3-5": 2048,
    }
)
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


def cache_minimum(model: str, own: Mapping[str, int] = _NONE) -> int:
    """Return the least tokens of a prompt that is kept for a model; what a deployment says of its `own` comes first.

    Bedrock's names hold the provider's behind `anthropic.`.
    """
    name = model.rpartition("anthropic.")[2]
    known = {**own, **{prefix: tokens for prefix, tokens in MINIMUM_TOKENS.items() if prefix not in own}}
    return next((tokens for prefix, tokens in known.items() if name.startswith(prefix)), DEFAULT_TOKENS)
