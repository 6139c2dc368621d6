"""What a client of the deployed stage saw of lanes: their facts, their text, their ends, by stream and name."""

from __future__ import annotations

from typing import Any, NamedTuple


class Lane(NamedTuple):
    """One lane of one stream, folded from the lines of a client."""

    facts: dict[str, Any]
    text: str
    ended: bool
    aborted: str


def lanes_of(lines, claim=None):
    """Return the lanes of a client's first stream, or of that of a claim, by name."""
    claim = claim or next(line["claim"] for line in lines if line["frame"] == "lane")
    ours = [line for line in lines if line.get("claim") == claim and "lane" in line]
    found = {}
    for name in dict.fromkeys(line["lane"] for line in ours if line["frame"] == "lane"):
        about = [line for line in ours if line["lane"] == name]
        ends = [line for line in about if line["frame"] == "lane_end"]
        text = "".join(line["text"] for line in about if line["frame"] == "delta")
        assert len(ends) <= 1
        assert not ends or ends[0]["chars"] == len(text), f"{name} does not hold what it says"
        facts = next(line["facts"] for line in about if line["frame"] == "lane")
        found[name] = Lane(facts, text, bool(ends), ends[0].get("aborted", "") if ends else "")
    return found


def place(lines, wanted):
    """Return the index of the first wanted line."""
    return next(n for n, line in enumerate(lines) if wanted(line))
