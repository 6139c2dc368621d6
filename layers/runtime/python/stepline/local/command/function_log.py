"""`stepline logs`: log lines of the local stage's functions, with the cause of failures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from stepline.errors import DependencyError, NotFoundError
from stepline.local.command.argument import json_option

GROUPS: Final = "/stepline/local/"
SHOWN: Final = 200
TRACE_LINES: Final = 8
POLL_S: Final = 1.0
OVERLAP_MS: Final = 60_000
"""The overlap of consecutive queries; lines already shown are skipped."""

_OF_PLATFORM: Final = ("START RequestId: ", "END RequestId: ", "REPORT RequestId: ")
_SHOWN: Final = frozenset({"message", "level", "timestamp", "exception", "exception_name", "stack_trace"})
_OF_EVERY_LINE: Final = frozenset(
    {"location", "service", "cold_start", "function_request_id", "xray_trace_id"}
)

Line = dict[str, Any]


@click.command()
@click.argument("function", default="")
@click.option("--follow", is_flag=True, help="Print new lines until Ctrl-C.")
@json_option
def logs(function: str, *, follow: bool, as_json: bool) -> None:
    """Show the logs of the local stage's functions, oldest first.

    FUNCTION is one of them, such as decide; default: all. A line with an error is followed by the end of its
    traceback. Without --follow the last 200 lines are shown.
    """
    from botocore.exceptions import HTTPClientError

    from stepline.local.caller import find_stage
    from stepline.local.stage.deployed import client
    from stepline.local.terminal.json_lines import render_json_line

    cloud = client("logs", find_stage())
    try:
        groups = find_groups(cloud, function)
        for line in follow_lines(cloud, groups) if follow else read_lines(cloud, groups)[-SHOWN:]:
            for text in [render_json_line(line)] if as_json else render_line(line):
                click.echo(text)
    except HTTPClientError as error:
        raise DependencyError("the local stage was stopped", code="not_running") from error


def find_groups(cloud: Any, function: str) -> list[str]:
    """Return the log groups of a function, or of all. Raises NotFoundError `function_not_found`."""
    pages = cloud.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=GROUPS)
    names = [group["logGroupName"] for page in pages for group in page["logGroups"]]
    if not function:
        return names
    if GROUPS + function not in names:
        known = ", ".join(name.removeprefix(GROUPS) for name in names)
        raise NotFoundError(
            f"there is no function {function}; the functions are {known}", code="function_not_found"
        )
    return [GROUPS + function]


def read_lines(
    cloud: Any, groups: Sequence[str], since_ms: int = 0, seen: set[str] | None = None
) -> list[Line]:
    """Return the groups' lines in order of time, skipping streams in `seen`; add the others to `seen`.

    On the emulator a stream is one call of a function, written at once when the call has ended.
    """
    known = set() if seen is None else seen
    found: list[Line] = []
    streams: set[str] = set()
    for group in groups:
        pages = cloud.get_paginator("filter_log_events").paginate(logGroupName=group, startTime=since_ms)
        events = [event for page in pages for event in page["events"] if event["logStreamName"] not in known]
        streams |= {event["logStreamName"] for event in events}
        found += parse_events(group.removeprefix(GROUPS), events)
    known |= streams
    return sorted(found, key=lambda line: str(line["timestamp"]))


def follow_lines(cloud: Any, groups: Sequence[str]) -> Iterator[Line]:
    """Yield the last lines, then new ones as they appear."""
    seen: set[str] = set()
    yield from read_lines(cloud, groups, 0, seen)[-SHOWN:]
    while True:
        time.sleep(POLL_S)
        yield from read_lines(cloud, groups, int(time.time() * 1000) - OVERLAP_MS, seen)


def parse_events(function: str, events: Sequence[Line]) -> list[Line]:
    """Parse log events into records: JSON lines unchanged, other text as lines of level PRINT.

    Metrics, the platform's START, END and REPORT lines, and the runtime's copy of an exception that already has a line
    are left out.
    """
    found: list[Line] = []
    reported: set[str] = set()
    copying = False
    for event in events:
        text, stream = event["message"], event["logStreamName"]
        if text.startswith(_OF_PLATFORM):
            copying = False
            continue
        record = _record(text)
        if record is not None:
            copying = False
            if "_aws" not in record:
                found.append({"function": function, **record})
                if record.get("level") in ("ERROR", "WARNING"):
                    reported.add(stream)
            continue
        copying = copying or (text.startswith("[ERROR]") and stream in reported)
        if not copying and text.strip():
            at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
            stamp = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}+0000"
            found.append({"function": function, "level": "PRINT", "timestamp": stamp, "message": text})
    return found


def render_line(record: Line) -> list[str]:
    """Return a record as terminal lines: time, function, level, message and fields, then the traceback's end."""
    from stepline.local.safe_text import clean, clean_line

    fields = " ".join(
        f"{name}={value}"
        for name, value in record.items()
        if name not in _SHOWN | _OF_EVERY_LINE and not name.startswith("function") and value not in ("", None)
    )
    clock = str(record.get("timestamp", ""))[11:23]
    head = (
        f"{clock} {record['function']:10} {record.get('level', ''):7} {record.get('message', '')}  {fields}"
    )
    trace = str(record.get("exception") or "").splitlines()[-TRACE_LINES:]
    return [clean_line(head.rstrip()), *(f"    {clean(text)}" for text in trace)]


def _record(text: str) -> Line | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
