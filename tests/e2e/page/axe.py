"""Findings of axe-core in a page that would keep a user from using it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[3] / "web/node_modules/axe-core/axe.min.js"
# A colour on its way to another one has the contrast of neither.
_SETTLE = (
    "() => document.getAnimations().filter(one => one instanceof CSSTransition).forEach(one => one.finish())"
)
_RUN = """async () => (await axe.run({ resultTypes: ["violations"], iframes: false })).violations
  .filter(found => ["serious", "critical"].includes(found.impact))
  .map(found => `${found.id}: ${found.nodes.map(node => node.target.join(" ")).slice(0, 4).join(" | ")}`)"""


@cache
def _script():
    if not _SCRIPT.exists():
        pytest.skip("axe-core is not installed: make web")
    return _SCRIPT.read_text()


def find_serious(page):
    """Return the rules that a page breaks, with the places."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_script())
    page.evaluate(_SETTLE)
    return page.evaluate(_RUN)
