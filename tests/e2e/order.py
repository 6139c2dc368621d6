"""What must hold of every client's output, whatever was lost, killed or restarted."""

from __future__ import annotations


def check_order(lines, *, after=0):
    """Assert that events are dense and in order and text has no hole and no repeat; return the last event number."""
    cursor, place = after, (after, -1)
    for line in (line for line in lines if line["frame"] == "event"):
        if line["n"] != cursor:
            assert line["prev"] == cursor or after == cursor >= line["prev"], f"a hole before {line['n']}"
        assert (line["n"], line["i"]) > place, "an event came twice"
        cursor, place = line["n"], (line["n"], line["i"])
    check_text(lines)
    return cursor


def check_text(lines, have=None):
    """Assert that each lane of each stream continues at its end; return the end of each."""
    ends = dict(have or {})
    for line in (line for line in lines if line["frame"] == "delta"):
        lane = (line["claim"], line["lane"])
        assert line["off"] == ends.get(lane, 0), (
            f"text of {lane} does not continue at {ends.get(lane, 0)}: {line}"
        )
        ends[lane] = line["off"] + len(line["text"])
    return ends


def terminals(lines):
    return [line for line in lines if line.get("terminal")]


def events(lines, kind):
    return [line for line in lines if line["frame"] == "event" and line["type"] == kind]
