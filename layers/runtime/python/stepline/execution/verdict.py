"""What came of a run's files, one by one: made by `outputs`, read by the envelope."""

from __future__ import annotations

from typing import Final

from stepline.execution.preview import Preview
from stepline.model.base import Value
from stepline.model.program.execution import RefusedFile, Visibility

MISSING: Final = frozenset({"missing_file", "empty_file"})
"""Codes of promised files that are not there; the others are there and no good."""


class Verdict(Value):
    """What came of one file. `code` is empty for a file that is taken over.

    `key` is set for a file that lies there as it was before the run: its bytes are in the store, not in the spool.
    `path` is physical, `logical` the same as a logical path.
    """

    path: str
    logical: str
    mime: str
    name: str = ""
    description: str = ""
    visibility: Visibility = "internal"
    contracted: bool = False
    code: str = ""
    detail: str = ""
    message: str = ""
    sha256: str = ""
    size_bytes: int = 0
    key: str = ""
    text_symbols: int | None = None
    line_count: int | None = None
    preview: Preview | None = None


class Verdicts(Value):
    """What came of a run's files: those of the contract in its order, others that are kept, others that are not."""

    files: tuple[Verdict, ...] = ()
    kept: tuple[Verdict, ...] = ()
    left: tuple[RefusedFile, ...] = ()

    @property
    def taken(self) -> tuple[Verdict, ...]:
        """Every file that is taken over."""
        return (*(file for file in self.files if not file.code), *self.kept)

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The promised files that are not taken over."""
        return tuple(file for file in self.files if file.code)
