"""Read the conversation from a program: `ctx_tools.fetch_ctx("tc:<turn>.<call>.result")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .agent_io_tools import send


def fetch_ctx(path: str | Sequence[str]) -> Any:
    """Return the content at a logical path, or a list of contents in the order of a list of paths.

    Each answer has `path` and either `ret`, with `payload` (parsed JSON, or rows of the source pool) or
    `text`, or `err`, with `code` and `message`. Only paths of the families ar:, so: and tc: work; files are
    below OUTPUT_DIR.
    """
    return send("ctx_tools.fetch_ctx", {"path": path if isinstance(path, str) else list(path)})
