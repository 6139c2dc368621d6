"""The fields of a request that a model may reject: thinking, effort, and sampling parameters.

The table of families decides, as for the requests themselves; a model of no family accepts everything. Source:
platform.claude.com, "Thinking", "Effort" and "Versions".
"""

from __future__ import annotations

from typing import Any, Final

from stepline.adapters.anthropic.family import ABOVE_HIGH, UNKNOWN_FAMILY, ModelFamily, family_of
from stepline.local.scripted.messages_request import BadRequestError
from stepline.model.base import Value

CURRENT: Final = "2026-10-21"
"""The first API version without sampling parameters."""
SAMPLING: Final = ("temperature", "top_p", "top_k")
THINKING_TOKENS: Final = 48
BUDGET_MIN: Final = 1024


class ScriptedThought(Value):
    """The thinking before an answer: how many `tokens`, and whether its text is `shown` or only signed."""

    tokens: int = 0
    shown: bool = False


def read_thought(body: dict[str, Any], version: str) -> ScriptedThought:
    """Return how the model of a request thinks, under an API version.

    Raises BadRequestError, with the provider's message, for a field that its family rejects.
    """
    family = family_of(str(body.get("model")))
    for name in SAMPLING:
        if name in body and (version >= CURRENT or not (family.older or family is UNKNOWN_FAMILY)):
            raise BadRequestError(f"{name}: Extra inputs are not permitted")
    thinking = body.get("thinking") or {}
    kind = thinking.get("type") if isinstance(thinking, dict) else thinking
    _check_kind(kind, thinking, family, int(body["max_tokens"]))
    _check_effort((body.get("output_config") or {}).get("effort"), kind, family)
    thinks = kind in ("adaptive", "enabled") or (kind is None and family.thinks)
    return ScriptedThought(
        tokens=THINKING_TOKENS if thinks else 0,
        shown=kind == "enabled" or (thinks and thinking.get("display") == "summarized"),
    )


def bedrock_version(body: dict[str, Any]) -> str:
    """Return the API version of a request to Bedrock.

    Raises BadRequestError for a version that Bedrock does not serve.
    """
    version = str(body.get("anthropic_version") or "").removeprefix("bedrock-")
    if family_of(str(body.get("model"))).older and version >= CURRENT:
        raise BadRequestError(f"anthropic_version: {version} is not supported for this model")
    return version


def _check_kind(kind: Any, thinking: Any, family: ModelFamily, max_tokens: int) -> None:
    if kind not in (None, "adaptive", "disabled", "between_tools", "enabled"):
        raise BadRequestError(
            f"thinking: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        )
    takes = {
        *family.thinking,
        *(("enabled",) if family.budget else ()),
        *(() if family.thinks else ("disabled",)),
    }
    if kind is not None and family is not UNKNOWN_FAMILY and kind not in takes:
        raise BadRequestError(
            f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
    if kind == "enabled" and not BUDGET_MIN <= int(thinking.get("budget_tokens") or 0) < max_tokens:
        raise BadRequestError(
            f"thinking.budget_tokens: must be at least {BUDGET_MIN} and less than `max_tokens`"
        )


def _check_effort(effort: Any, kind: Any, family: ModelFamily) -> None:
    if effort is None or family is UNKNOWN_FAMILY:
        return
    if effort not in family.efforts:
        raise BadRequestError(f"This model does not support effort level '{effort}'")
    if effort in ABOVE_HIGH and family.capped and kind in ("disabled", "between_tools"):
        raise BadRequestError(f"effort level '{effort}' is not supported with \"thinking.type.{kind}\"")
