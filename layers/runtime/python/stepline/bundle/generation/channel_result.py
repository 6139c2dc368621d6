"""The result of a channel: its text as the model wrote it, the parsed object, and its citations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

import msgspec

from stepline.bundle.generation.subscriber import SubscriberError
from stepline.errors import DecisionError
from stepline.protocol.decision.json_repair import read_object, repair
from stepline.protocol.parser.grammar import ChannelSpec, Format

MULTIPLE: Final = "multiple_channel_instances"
FENCED_FORMATS: Final = frozenset({"json", "yaml", "xml", "html", "mermaid"})
"""Formats whose bodies models often put into a fence."""

_CODES = {"multi_decision_in_one_channel": "expected_single_json_candidate"}
"""Names of decision error codes for other channels."""

_INFO_WORDS = FENCED_FORMATS | {"yml", "htm", "svg", "mmd", "json5", "jsonc"}
_FENCE = re.compile(r"\s*```+[ \t]*(?P<word>[\w+.-]*)(?P<blank>[ \t]*(?:\n|\Z))?")
_CLOSING = re.compile(r"[ \t]`{3,16}\Z|^[ \t]{0,8}`{3,16}[ \t]{0,8}$", re.MULTILINE)


class _UnreadableError(Exception):
    """A body does not match its format; a code and the details."""


@dataclass(frozen=True, kw_only=True)
class ChannelResult:
    """All instances of one channel.

    `raw` is their bodies joined, character for character; `instances` has each, without its fence where the
    format is often fenced. `obj` is the body parsed into the channel's model, or None with the reason in
    `error`, a code with its details after a colon; with more than one instance, parsing is left to the
    caller. `used_sources` are the sids that the text cites, `unresolved_sids` those of them that the sources
    do not have. Times are seconds since 1970, None for a channel that never appeared. `truncated`: the last
    instance was cut.
    """

    raw: str = ""
    obj: Any = None
    used_sources: list[int] = field(default_factory=list)
    unresolved_sids: list[int] = field(default_factory=list)
    started_at: float | None = None
    finished_at: float | None = None
    error: str | None = None
    instances: list[str] = field(default_factory=list)
    truncated: bool = False


class ServiceError(TypedDict):
    """The reason why the model did not answer, or only in part. `code` and `error_type` are ours and stable."""

    kind: str
    stage: str
    service_name: str
    model_name: str
    error_type: str
    code: str
    message: str
    http_status: int | None
    retryable: bool
    context: dict[str, Any]


class StreamMeta(TypedDict):
    """Data about the generation as a whole. `raw` is the model's whole text, with tags.

    `usage` counts tokens (keys of `usage_row`). `thoughts`, `tool_calls` and `citations` are provider data
    in addition to the text; the port carries text alone, so they are empty. `outside_chars` were in no channel,
    `unknown_channels` were skipped.
    """

    raw: str
    service_error: ServiceError | None
    usage: dict[str, int | bool]
    model_name: str
    provider_message_id: str
    stop_reason: str
    thoughts: list[str]
    tool_calls: list[dict[str, Any]]
    citations: list[dict[str, Any]]
    subscriber_errors: list[SubscriberError]
    outside_chars: int
    unknown_channels: list[str]


def strip_fence(body: str) -> str:
    """Return `body` without its fence and surrounding blanks; text on the fence's lines is kept."""
    opening = _FENCE.match(body)
    if opening is None:
        return body.strip()
    named = opening["blank"] is not None or opening["word"].lower() in _INFO_WORDS
    inner = body[opening.end() if named else opening.start("word") :].rstrip()
    closings = list(_CLOSING.finditer(inner))
    return (inner[: closings[-1].start()] if closings else inner).strip()


def plain_bodies(bodies: Iterable[str], kind: Format) -> list[str]:
    """Return the bodies in the form that the format's parser expects."""
    return [strip_fence(body) if kind in FENCED_FORMATS else body for body in bodies]


def read_model(spec: ChannelSpec, bodies: list[str]) -> tuple[Any, str | None]:
    """Return the only one of `bodies` parsed as `spec.model`, and no error; or None and the error."""
    if spec.model is None or not bodies:
        return None, None
    if len(bodies) > 1:
        return None, f"{MULTIPLE}:{len(bodies)}"
    try:
        value = _read_value(bodies[0], spec.format)
    except _UnreadableError as error:
        return None, ":".join(error.args)
    try:
        return _convert(value, spec.model), None
    except ValueError as error:  # also the base class of msgspec's and pydantic's errors
        return None, f"channel_validate_error:{error}"


def _read_value(body: str, kind: Format) -> Any:
    """Return the value in a body. Raises _UnreadableError."""
    text = strip_fence(body)
    match kind:
        case "json" if text.startswith("["):
            try:
                return msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError) as error:
                raise _UnreadableError("json_decode_error", str(error)) from error
        case "json":
            return _read_object(body)
        case "yaml":
            import yaml  # noqa: PLC0415 - 20 ms of import, for the few channels that are read as YAML

            try:
                return yaml.safe_load(text)
            except (yaml.YAMLError, RecursionError) as error:
                raise _UnreadableError("yaml_decode_error", str(error)) from error
        case _:
            return text


def _read_object(body: str) -> dict[str, Any]:
    """Return the object in a body, repaired where that is no guess. Raises _UnreadableError."""
    try:
        return read_object(body).fields
    except DecisionError as error:
        repaired = repair(body) if error.reason == "json_decode_error" else None
        if repaired is None or repaired.guessed:
            code = _CODES.get(error.reason, error.reason)
            raise _UnreadableError(code, str(error)) from error
        return repaired.fields


def _convert(value: Any, model: Any) -> Any:
    """Return `value` as `model`. Raises ValueError."""
    if hasattr(model, "model_validate"):  # pydantic's; its import would take 100 ms
        return model.model_validate(value)
    return msgspec.convert(value, model, strict=False)
