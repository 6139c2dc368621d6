"""Findings of `stepline doctor`."""

from __future__ import annotations

from typing import Literal

from stepline.model.base import Value


class Check(Value):
    """What was looked at and found; `remedy` is a command or a sentence, empty when all is well.

    `note` marks what stops nothing: `off` is not set up and not needed, `warn` will hurt some day, `unknown` could not be
    looked at.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    note: Literal["", "off", "warn", "unknown"] = ""

    @property
    def mark(self) -> str:
        """The word in front of the line."""
        return self.note or ("ok" if self.ok else "NO")

    def as_json(self) -> dict[str, object]:
        """The finding as an object."""
        return {
            "mark": self.mark.lower(),
            "name": self.name,
            "ok": self.ok,
            "detail": self.detail,
            "remedy": self.remedy,
        }


def passed(name: str, detail: str) -> Check:
    """Return the finding that all is well."""
    return Check(name=name, ok=True, detail=detail)


def failed(name: str, detail: str, remedy: str) -> Check:
    """Return the finding that something must be mended first."""
    return Check(name=name, ok=False, detail=detail, remedy=remedy)


def warned(name: str, detail: str, remedy: str) -> Check:
    """Return the finding that something will hurt some day."""
    return Check(name=name, ok=True, note="warn", detail=detail, remedy=remedy)
