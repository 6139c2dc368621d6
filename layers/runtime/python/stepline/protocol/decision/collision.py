"""Actions of one round against each other: the same call twice, one file written twice, a file used before it is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from stepline.errors import DecisionError, PathError
from stepline.model.decision import ToolCall
from stepline.model.path import artifact_path
from stepline.protocol.decision.call import ToolSpecLike
from stepline.protocol.decision.notice import cap

REFERENCE: Final = "ref:"
"""What a parameter begins with that stands for a file's content."""


class Collisions:
    """What the actions kept so far claim: their calls, and the files they write."""

    def __init__(self, tools: Mapping[str, ToolSpecLike], turn: str) -> None:
        self._tools = tools
        self._turn = turn
        self._calls: dict[bytes, int] = {}
        self._writers: dict[str, int] = {}

    def take(self, call: ToolCall, number: int, code: str | None = None) -> None:
        """Take the next call, the round's decision `number`; it has kept its contract, `code` is its program.

        Raises DecisionError `multi_action_bundle_duplicate`, `…_same_file_collision` or
        `…_render_consumes_same_round_source`; then the call is not taken.
        """
        identity = msgspec.json.encode([call.tool_id, call.params, code], order="sorted")
        if first := self._calls.get(identity):
            raise DecisionError(
                f"it asks for exactly what action {first} of this round does.",
                code="multi_action_bundle_duplicate",
                same_as=first,
            )
        files = self._files(call)
        for file in files:
            if writer := self._writers.get(file):
                raise DecisionError(
                    f"action {writer} of this round writes the same file, {cap(file, 200)}. "
                    "Write a file once in a round, or under another name.",
                    code="multi_action_bundle_same_file_collision",
                    path=file,
                    same_as=writer,
                )
        for used in self._references(call.params):
            if writer := self._writers.get(used):
                raise DecisionError(
                    f"it uses {cap(used, 200)}, which action {writer} of this round only writes. "
                    "Send it in the next round, when the file is there.",
                    code="multi_action_bundle_render_consumes_same_round_source",
                    path=used,
                    same_as=writer,
                )
        self._calls[identity] = number
        self._writers |= dict.fromkeys(files, number)

    def _files(self, call: ToolCall) -> list[str]:
        """Return the files of the turn that a call writes, each once; a name that is refused is for the tool to say."""
        raws = self._tools[call.tool_id].outputs(call.params)
        return list(dict.fromkeys(file for raw in raws if (file := self._file(raw))))

    def _file(self, raw: str) -> str:
        try:
            return str(artifact_path(self._turn, raw))
        except PathError:
            return ""

    def _references(self, value: Any) -> Iterator[str]:
        match value:
            case str() if value.startswith(REFERENCE):
                yield self._file(value.removeprefix(REFERENCE).strip())
            case dict():
                for one in value.values():
                    yield from self._references(one)
            case list():
                for one in value:
                    yield from self._references(one)
