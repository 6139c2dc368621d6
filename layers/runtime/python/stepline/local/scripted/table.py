"""Tables: one to write, made up but always the same for the same words, and one to find in what a program printed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from typing import Final

REGIONS: Final = ("North", "South", "East", "West")
SALES_PER_REGION: Final = 3
FIRST_YEAR: Final = 2026
_GUTTER: Final = re.compile(r"^ *\d+\t")


def sales_table(*, seed: str, months: int) -> str:
    """Return sales as CSV (`date,region,units,amount`), a few a month and region; other words, other figures."""
    return "\n".join(["date,region,units,amount", *_rows(seed, months)])


def _rows(seed: str, months: int) -> Iterator[str]:
    for month in range(months):
        for region in REGIONS:
            for sale in range(SALES_PER_REGION):
                bits = hashlib.sha256(f"{seed}/{month}/{region}/{sale}".encode()).digest()
                day, units = 1 + bits[0] % 28, 1 + bits[1] % 20
                cents = 500 + int.from_bytes(bits[2:4]) % 9_500
                date = f"{FIRST_YEAR + month // 12}-{month % 12 + 1:02}-{day:02}"
                yield f"{date},{region},{units},{units * cents / 100:.2f}"


def find_table(text: str) -> str:
    """Return the first Markdown table in a text, without the line numbers of a preview; empty if there is none."""
    lines = [_GUTTER.sub("", line).strip() for line in text.split("\n")]
    table = list(takewhile(_is_row, dropwhile(lambda line: not _is_row(line), lines)))
    return "\n".join(table) if len(table) > 2 else ""


def _is_row(line: str) -> bool:
    return line.startswith("|") and line.endswith("|")
