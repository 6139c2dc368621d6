"""The pool of sources, read from documents: rows by their numbers, in the order of the document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stepline.log.importing.foreign_value import Findings, count_of, is_address, refuse, text_of
from stepline.model.source import Source
from stepline.timeline.sources_pool import SID_MAX, fit_source, is_eligible

SOURCES_MAX: Final = 10_000
_TEXTS: Final = (
    *(
        "title",
        "url",
        "text",
        "content",
        "mime",
        "path",
        "turn_id",
        "published_time_iso",
        "modified_time_iso",
    ),
    *("fetched_time_iso", "author", "authority", "favicon_url"),
)
_SCORES: Final = ("objective_relevance", "query_relevance")
_ALIASES: Final = {"favicon": "favicon_url", "published": "published_time_iso", "logical_path": "path"}
_TYPES: Final = ("web", "file", "attachment", "manual")


def read_sources(rows: Any, where: str, findings: Findings) -> dict[int, Source]:
    """Return the rows of a pool that ours can take. Raises InputError `import_bad_value`, `import_too_large`."""
    if not isinstance(rows, list):
        refuse("import_bad_value", where, "`sources_pool` is a list")
    if len(rows) > SOURCES_MAX:
        refuse("import_too_large", where, f"a pool has at most {SOURCES_MAX} rows")
    pool: dict[int, Source] = {}
    for index, raw in enumerate(rows):
        row = _row(raw, f"{where}.sources_pool[{index}]")
        if not 0 < row.sid <= SID_MAX or not is_eligible(row):
            findings.leave_out("source")
            continue
        fitted = fit_source(row)
        if fitted != row or row.sid in pool:
            findings.change("source")
        pool[row.sid] = fitted
    return pool


def _row(raw: Any, where: str) -> Source:
    if not isinstance(raw, dict):
        refuse("import_bad_value", where, "a source is an object")
    told = {_ALIASES.get(name, name): value for name, value in _named(raw)}
    fields: dict[str, Any] = {name: _score(told.get(name)) for name in _SCORES}
    for name in _TEXTS:
        if told.get(name) is not None:
            fields[name] = text_of(told[name], f"{where}.{name}")
    if fields.get("path") and not is_address(fields["path"]):
        fields["path"] = ""
    kind = told.get("source_type")
    return Source(
        sid=count_of(told.get("sid")),
        source_type=kind if kind in _TYPES else "web",
        size_bytes=count_of(told.get("size_bytes")),
        **fields,
    )


def _named(raw: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the fields, those under another system's names first, so that ours win."""
    fields = [(str(name), value) for name, value in raw.items()]
    return sorted(fields, key=lambda pair: pair[0] not in _ALIASES)


def _score(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= 1 else None
