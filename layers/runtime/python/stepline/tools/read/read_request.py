"""The requests of one `react.read` call: paths and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.tools.window import FoundPart, LineNumbers, TextRange, TextWindow


class ReadRequest(Value):
    """One path and its range; None for a value that the model left out.

    Lines and an offset exclude each other. `max_chars` alone asks for a shorter preview, which is no range.
    """

    path: str
    line_start: int | None = None
    line_count: int | None = None
    offset: int | None = None
    max_chars: int | None = None
    line_numbers: LineNumbers | None = None

    @property
    def by_lines(self) -> bool:
        """True if lines are requested."""
        return self.line_start is not None or self.line_count is not None

    @property
    def is_range(self) -> bool:
        """True for an exact range, or a text with line numbers: shown even if it is visible already."""
        return self.by_lines or self.offset is not None or self.line_numbers in ("lines", "sparsed")

    @property
    def span(self) -> TextRange:
        """The requested part, before any cap."""
        if self.offset is not None:
            return TextRange(offset=self.offset, chars=self.max_chars)
        return TextRange(line=self.line_start or 1, line_count=self.line_count)

    def check(self, found: FoundPart) -> TextWindow:
        """Return the part that was found. Raises ToolError `range_ambiguous` or `range_outside`."""
        if self.by_lines and self.offset is not None:
            raise ToolError("ask for lines or for an offset, not for both", code="range_ambiguous")
        if found.part is not None:
            return found.part
        if self.offset is not None:
            raise ToolError(
                f"offset {self.offset} is behind the last character",
                code="range_outside",
                text_symbols=found.size.offset,
            )
        raise ToolError(
            f"line {self.span.line} is behind the last line",
            code="range_outside",
            line_count=found.size.line_before,
        )


def parse_requests(params: Mapping[str, Any]) -> list[ReadRequest]:
    """Return every request of a valid call, in order and each once."""
    asked = [{"path": path} for path in params.get("paths", ())]
    asked += [{"path": item} if isinstance(item, str) else item for item in params.get("items", ())]
    return list(dict.fromkeys(_request(item, params) for item in asked))


def _request(item: Mapping[str, Any], params: Mapping[str, Any]) -> ReadRequest:
    numbers = item.get("line_numbers", params.get("line_numbers"))
    if isinstance(numbers, bool):
        numbers = "lines" if numbers else "disabled"
    return ReadRequest(
        path=item["path"],
        line_start=item.get("line_start"),
        line_count=item.get("line_count"),
        offset=item.get("offset_text_symbols"),
        max_chars=item.get("max_text_symbols", params.get("max_text_symbols")),
        line_numbers=numbers,
    )
