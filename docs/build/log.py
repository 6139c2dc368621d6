"""The two tables of docs/concepts/log.md that come from the ablations of the explorer."""

from __future__ import annotations

import re
from typing import Final

from docs.build import DOCS
from tests.contract.explorer.ablation import ABLATIONS, MASKED
from tests.contract.explorer.call_ablation import CALLS
from tests.contract.explorer.limited_ablation import LIMITED

PATH: Final = DOCS / "concepts/log.md"

_TABLES = re.compile(r"(^\| (rule taken back \| [^\n]+) \|\n\|---\|---\|\n)((?:\|[^\n]*\n)*)", re.MULTILINE)


def render() -> str:
    """Return the page with updated tables."""
    return _TABLES.sub(lambda found: found[1] + _rows(found[2]), PATH.read_text(encoding="utf-8"))


def _rows(head: str) -> str:
    pairs = (
        [(one.rule, one.why_masked) for one in MASKED]
        if "masked" in head
        else [(one.rule, "; ".join(sorted(one.breaks))) for one in (*ABLATIONS, *LIMITED, *CALLS)]
    )
    return "".join(f"| {rule} | {text} |\n" for rule, text in pairs)
