"""Results of `stepline doctor`."""

from __future__ import annotations

from typing import Literal

from stepline.model.base import Value


class Check(Value):
    """The result of one check; `remedy` is a command or a sentence, empty if the check passed.

    `note` marks a result that is no failure: `off` is not set up and not needed, `warn` may fail later, `unknown` could
    not be checked.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    note: Literal["", "off", "warn", "unknown"] = ""

    @property
    def mark(self) -> str:
        """The status word at the start of the line."""
        return self.note or ("ok" if self.ok else "NO")

    def as_json(self) -> dict[str, object]:
        """Return the check as a JSON object."""
        return {
            "mark": self.mark.lower(),
            "name": self.name,
            "ok": self.ok,
            "detail": self.detail,
            "remedy": self.remedy,
        }


def passed(name: str, detail: str) -> Check:
    """Return the result of a check that passed."""
    return Check(name=name, ok=True, detail=detail)


def failed(name: str, detail: str, remedy: str) -> Check:
    """Return the result of a check that failed, with its remedy."""
    return Check(name=name, ok=False, detail=detail, remedy=remedy)


def judged(name: str, ok: bool, detail: str, remedy: str) -> Check:
    """Return a result from `ok`; the remedy is used only if it is false."""
    return Check(name=name, ok=ok, detail=detail, remedy="" if ok else remedy)


def warned(name: str, detail: str, remedy: str) -> Check:
    """Return a result that is no failure now but may become one."""
    return Check(name=name, ok=True, note="warn", detail=detail, remedy=remedy)
