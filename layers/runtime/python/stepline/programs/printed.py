"""Extracts of a run's output: its tail, the lines that look like errors, the tracebacks."""

from __future__ import annotations

import re
from typing import Final

LINES_MAX: Final = 20
LINE_CHARS_MAX: Final = 300
TRACEBACKS_MAX: Final = 3
TRACEBACK_CHARS_MAX: Final = 4_000

# One character before `Error` is enough to match, and keeps the scan linear.
_ERROR: Final = re.compile(r"(?i:\berror\b)|\wError\b|Exception")
_HEAD: Final = "Traceback (most recent call last):"
_NOISE: Final = (
    "Event loop is closed",
    "Task was destroyed but it is pending",
    "Exception ignored in:",
    "Task exception was never retrieved",
)
"""Lines that an event loop prints at interpreter exit; they say nothing about the program."""


def tail(text: str, chars_max: int) -> str:
    """Return the end of a text, from the start of a line if that costs less than half of it."""
    if len(text) <= chars_max:
        return text
    end = text[-chars_max:]
    if text[-chars_max - 1] == "\n":
        return end
    line = end.find("\n") + 1
    return end[line:] if 0 < line <= chars_max // 2 else end


def error_lines(text: str) -> tuple[str, ...]:
    """Return the last lines that mention an error, each once, in order."""
    found: dict[str, None] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if line and _ERROR.search(line) and not _is_noise(line):
            found.pop(line, None)
            found[line] = None
    return tuple(line[:LINE_CHARS_MAX] for line in list(found)[-LINES_MAX:])


def tracebacks(text: str) -> tuple[str, ...]:
    """Return the last tracebacks, each once: from the head to the line that names the exception."""
    found: dict[str, None] = {}
    for block in _blocks(text.splitlines()):
        shown = "\n".join(block)
        if not _is_noise(block[-1]):
            found.pop(shown, None)
            found[shown] = None
    return tuple(_middle_out(one) for one in list(found)[-TRACEBACKS_MAX:])


def last_exception(text: str) -> str:
    """Return the line that names the exception of the last traceback; empty if there is none."""
    ended = [
        block[-1] for block in _blocks(text.splitlines()) if len(block) > 1 and not block[-1][:1].isspace()
    ]
    return ended[-1].strip()[:LINE_CHARS_MAX] if ended else ""


def _blocks(lines: list[str]) -> list[list[str]]:
    """Extract the tracebacks: a head, its indented frames, and the first line after them."""
    blocks: list[list[str]] = []
    current: list[str] | None = None
    for line in lines:
        if line.strip() == _HEAD:
            current = [line.strip()]
            blocks.append(current)
        elif current is not None:
            current.append(line)
            if line and not line[0].isspace():
                current = None
    return blocks


def _middle_out(text: str) -> str:
    """Return a long traceback without its middle: origin and exception are at its ends."""
    if len(text) <= TRACEBACK_CHARS_MAX:
        return text
    half = TRACEBACK_CHARS_MAX // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _is_noise(line: str) -> bool:
    return any(word in line for word in _NOISE)
