"""The folder with what an agent is deployed from: handlers, locks of layers, the context of the task's image, the built page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from stepline.local.install.project import find_app, find_home, lay_out


@cache
def app_root() -> Path:
    """Return the checkout, or the copy that this makes of the installed wheel. Source: docs/adr/0009-wheel.md."""
    root = find_app(find_home())
    lay_out(root)
    return root
