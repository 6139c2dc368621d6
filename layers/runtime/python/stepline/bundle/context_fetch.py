"""What stands at logical paths, whole, for the code of a bundle: the agent's own resolver, and codes for what it refuses."""

from __future__ import annotations

import base64
import logging
from typing import Any, Final

import msgspec

from stepline.errors import DependencyError, PathError, ToolError
from stepline.model.path import FAMILIES, parse_path
from stepline.tools.content import TOO_LARGE, Content, check_whole, load_content
from stepline.tools.context import ToolContext

logger = logging.getLogger(__name__)

MALFORMED: Final = {
    "ar": "invalid_path_ar",
    "tc": "invalid_path_tc",
    "so": "invalid_path_so",
    "fi": "invalid_path_file",
    "sk": "invalid_path_skill",
}
"""Codes of what the grammar refuses, by family; `invalid_path_kind` for the others."""

ABSENT: Final = frozenset({"not_found", "turn_not_found", "family_not_available"})


def fetch(ref: str, context: ToolContext) -> dict[str, Any]:
    """Return `path`, and `ret` (`mime`, and `payload`, `text` or `base64`) or `err` (`code`, `message`).

    `payload` is parsed JSON, or rows of the pool; `base64` holds bytes that are no text.
    """
    try:
        path = parse_path(_checked(ref))
    except ToolError as refused:
        return _refused(ref, refused.reason, refused)
    except PathError as refused:
        return _refused(ref, MALFORMED.get(family_of(ref), "invalid_path_kind"), refused)
    try:
        return {"path": ref, "ret": _contents(load_content(path, context), context)}
    except ToolError as refused:
        return _refused(ref, _code(refused.reason), refused)
    except DependencyError as error:
        logger.warning("path not fetched", extra={"code": error.reason})
        return _refused(ref, "tool_failure", error)


def _code(reason: str) -> str:
    if reason == TOO_LARGE:
        return reason
    return "not_found" if reason in ABSENT else "tool_failure"


def family_of(ref: str) -> str:
    """Return the family of a path: what stands before its first colon; `so` for a bare `sources_pool[…]`."""
    text = ref.strip().removeprefix("conv:")
    return "so" if text.startswith("sources_pool") else text.partition(":")[0]


def _checked(ref: str) -> str:
    text = ref.strip().removeprefix("conv:")
    if not text:
        raise ToolError("a path is not empty", code="invalid_path_empty")
    if family_of(ref) in FAMILIES:
        return text
    code = "invalid_path_kind" if ":" in text else "invalid_path_literal"
    raise ToolError(f"a logical path begins with one of {', '.join(FAMILIES)} and a colon", code=code)


def _contents(content: Content, context: ToolContext) -> dict[str, Any]:
    if content.rows:
        return {"mime": content.mime, "payload": list(content.rows)}
    if content.text is None:
        if content.body is not None:
            check_whole(content.body)
        data = context.artifacts.get(content.body.key) if content.body else b""
        return {"mime": content.mime, "base64": base64.b64encode(data).decode()}
    if content.mime.partition(";")[0] == "application/json":
        try:
            return {"mime": content.mime, "payload": msgspec.json.decode(content.text)}
        except msgspec.DecodeError:
            return {
                "mime": content.mime,
                "text": content.text,
            }  # says it is JSON and is not: still what stands there
    return {"mime": content.mime, "text": content.text}


def _refused(ref: str, code: str, error: Exception) -> dict[str, Any]:
    return {"path": ref, "err": {"code": code, "message": str(error)}}
