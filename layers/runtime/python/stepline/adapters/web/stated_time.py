"""Times as pages and search engines state them."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime


def read_time(text: str | None) -> str:
    """Convert a time in ISO 8601 or in the format of mails to ISO 8601; return "" for any other text."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return read((text or "").strip()).isoformat()
        except (ValueError, OverflowError, TypeError, IndexError):  # as mails' dates raise them
            continue
    return ""
