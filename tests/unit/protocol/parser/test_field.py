import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.protocol.decision.json_repair import read_object
from stepline.protocol.parser.field import KEYS_MAX, FieldStream, Path, mend_surrogates

CUTS = st.lists(st.integers(min_value=1, max_value=400), max_size=60)
TOP = (("notes",), ("final_answer",))


class Reader:
    """Takes the values at some paths, or all of them, and keeps what it receives, in order."""

    def __init__(self, paths: tuple[Path, ...] | None = TOP, *, json_paths: tuple[Path, ...] = ()) -> None:
        self.received: list[tuple[Path, str | None]] = []
        self._paths = paths
        self.stream = FieldStream(
            self._choose, (lambda path: Value(self.received, path) if path in json_paths else None)
        )

    def _choose(self, path: Path) -> Any:
        if self._paths is not None and path not in self._paths:
            return None
        return Value(self.received, path)

    def feed(self, text: str) -> list[tuple[Path, str | None]]:
        """Return the calls that a piece causes."""
        before = len(self.received)
        self.stream.feed(text)
        return self.received[before:]

    @property
    def values(self) -> dict[Path, str]:
        made: dict[Path, str] = {}
        for path, text in self.received:
            made[path] = made.get(path, "") + (text or "")
        return made

    @property
    def ended(self) -> list[Path]:
        return [path for path, text in self.received if text is None]


class Value:
    def __init__(self, received: list[tuple[Path, str | None]], path: Path) -> None:
        self.received, self.path = received, path

    def take(self, text: str) -> None:
        self.received.append((self.path, text))

    def end(self) -> None:
        self.received.append((self.path, None))


def run(text: str, cuts: list[int] | None = None, paths: tuple[Path, ...] | None = TOP) -> Reader:
    """Return the reader of a whole text; without `cuts` it came in single characters."""
    places = (
        list(range(len(text) + 1))
        if cuts is None
        else [0, *sorted({c for c in cuts if c < len(text)}), len(text)]
    )
    reader = Reader(paths)
    for start, end in pairwise(places):
        reader.feed(text[start:end])
    return reader


def strings(value: Any, path: Path = ()) -> dict[Path, str]:
    """Return the strings of an object that a stream offers, by their paths; those of a list are joined."""
    found: dict[Path, str] = {}
    for key, inner in value.items() if isinstance(value, dict) else ():
        here = (*path, key)
        if isinstance(inner, str):
            found[here] = inner
        elif isinstance(inner, list) and len(here) < KEYS_MAX:
            texts = [item for item in inner if isinstance(item, str)]
            found |= {(*here, ""): "".join(texts)} if texts else {}
        elif len(here) < KEYS_MAX:
            found |= strings(inner, here)
    return found


KEYS = st.sampled_from(["action", "notes", "final_answer", "tool_call", "tool_id", "params", "content", "a"])
STRINGS = st.text(alphabet=st.characters() | st.sampled_from('\\"{}[]:,\n\ud83d\ude00😀')) | st.sampled_from(
    ["\ud83d", "\ud83dx", "\ud83d\ud83d\ude00", "\\ud83d", '", "notes": "no', "\u0000\u001f"]
)
VALUES = st.recursive(
    STRINGS | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DECISIONS = st.dictionaries(KEYS, VALUES, max_size=6)


@given(
    decision=DECISIONS,
    cuts=CUTS,
    ascii_only=st.booleans(),
    indent=st.none() | st.integers(0, 2),
    before=st.sampled_from(["", "\n```json\n", "Here: ", "```json"]),
    after=st.sampled_from(["", "\n```\n", ' } ] " done']),
)
@example(decision={"notes": "\ud83d"}, cuts=[], ascii_only=True, indent=None, before="", after="")
def test_the_pieces_of_a_value_are_that_value_however_the_text_is_cut(
    *,
    decision: dict[str, Any],
    cuts: list[int],
    ascii_only: bool,
    indent: int | None,
    before: str,
    after: str,
) -> None:
    body = json.dumps(decision, ensure_ascii=ascii_only, indent=indent)
    decision = json.loads(body)  # JSON joins the halves of a pair that is escaped
    expected = {path: mend_surrogates(text) for path, text in strings(decision).items()}
    for cut in (cuts, None):
        reader = run(before + body + after, cut, paths=None)
        if ascii_only:  # raw halves of a pair come from no decoder of UTF-8
            assert reader.values == expected
        assert set(reader.ended) == set(expected)
        assert len([path for path in reader.ended if path[-1]]) == len(
            [path for path in expected if path[-1]]
        )
        assert reader.stream.over
        assert not reader.stream.broken


@given(decision=DECISIONS, cuts=CUTS)
def test_an_ignored_value_does_not_affect_accepted_ones(decision: dict[str, Any], cuts: list[int]) -> None:
    decision = json.loads(json.dumps(decision))
    expected = {p: mend_surrogates(t) for p, t in strings(decision).items() if p in TOP}
    assert run(json.dumps(decision), cuts).values == expected


@given(text=st.text(alphabet='{}[]":,\\ud83d0 \nabnotes', max_size=60), cuts=CUTS)
def test_invalid_json_gives_the_same_result_at_every_cut(text: str, cuts: list[int]) -> None:
    one, other = run("{" + text, cuts, paths=None), run("{" + text, paths=None)
    assert one.values == other.values
    assert one.ended == other.ended
    assert (one.stream.broken, one.stream.over) == (other.stream.broken, other.stream.over)


def test_a_value_is_offered_by_its_keys_and_ends_before_the_next_one() -> None:
    reader = Reader(paths=None)
    head = '{"action": "call_tool", "tool_call": {"tool_id": "react.write", "params": {"path": "a", "x": {"deep":'
    reader.feed(head)
    assert reader.values == {
        ("action",): "call_tool",
        ("tool_call", "tool_id"): "react.write",
        ("tool_call", "params", "path"): "a",
    }
    reader.feed(' "no"}, "list": ["no", {"path": "no"}], "content": "yes')
    assert list(reader.values)[3:] == [("tool_call", "params", "content")]


def test_a_pair_of_surrogate_escapes_is_one_character_also_when_it_is_cut() -> None:
    reader = Reader()
    assert reader.feed(r'{"notes": "a\ud83d') == [(("notes",), "a")]
    assert reader.feed(r"\ude") == []
    assert reader.feed("00b") == [(("notes",), "😀b")]


def test_a_lone_half_of_a_pair_becomes_a_replacement_character() -> None:
    assert run(r'{"notes": "a\ud83d b\ude00"}').values == {("notes",): "a\ufffd b\ufffd"}


@pytest.mark.parametrize(
    "text", ['{"notes": "a[{b', '{"notes": "say <i>', r'{"notes": "\u00e4', r'{"notes": "1\n']
)
def test_only_an_incomplete_escape_is_held_back(text: str) -> None:
    whole = json.loads(text + '"}')["notes"]
    reader = Reader()
    reader.feed(text)
    assert reader.values[("notes",)] == whole
    held = Reader()
    held.feed(text + "\\u00")
    assert held.values[("notes",)] == whole


def test_text_without_quotes_passes_in_one_piece() -> None:
    reader = Reader()
    reader.feed('{"final_answer": "')
    assert reader.feed("one, two } three") == [(("final_answer",), "one, two } three")]


def test_a_quote_ends_a_string_and_invalid_json_ends_the_stream() -> None:
    reader = run('{"final_answer": "he said "yes", then", "notes": "n\\x"}')
    assert reader.values == {("final_answer",): "he said "}
    assert reader.ended == [("final_answer",)]
    assert reader.stream.broken
    reader = run('{"notes": "a\\xb", "final_answer": "c"}')
    assert reader.values == {("notes",): "a"}
    assert reader.stream.broken


@pytest.mark.parametrize(
    "text",
    [
        '{"notes": "a": "b"}',
        '{"notes": "": "b"}',
        '{"notes", "final_answer": "b"}',
        '{"x": ["y": "z"], "notes": "b"}',
    ],
)
def test_two_values_in_a_row_or_a_key_alone_end_the_stream(text: str) -> None:
    reader = run(text)
    assert reader.stream.broken
    assert "b" not in reader.values.values()
    assert len(reader.ended) <= 1


def test_brackets_that_do_not_match_end_the_stream() -> None:
    reader = run('{"a": [}, "notes": "n"}')
    assert reader.stream.broken
    assert reader.received == []


def test_the_first_of_two_equal_keys_counts_in_the_stream_and_in_the_record() -> None:
    text = '{"notes": "one", "notes": "two", "final_answer": null, "final_answer": "x"}'
    assert run(text).values == {("notes",): "one"}
    assert read_object(text).fields == {"notes": "one", "final_answer": None}


def test_values_below_a_repeated_key_are_not_offered() -> None:
    text = '{"tool_call": null, "tool_call": {"tool_id": "late", "params": {"path": "late"}}}'
    assert run(text, paths=(("tool_call", "tool_id"), ("tool_call", "params", "path"))).received == []


@pytest.mark.parametrize("tail", ["", "\n```", '{"notes": "second"}'])
def test_text_after_the_first_object_is_skipped(tail: str) -> None:
    assert run('{"notes": "first"}' + tail).values == {("notes",): "first"}


def test_raw_line_breaks_in_a_string_are_let_through() -> None:
    text = '{"notes": "a\nb\tc"}'
    assert run(text).values[("notes",)] == read_object(text).fields["notes"]


@pytest.mark.parametrize(
    "text",
    [
        '{"notes": "", : "b"}',
        '{"notes": "", </x:y> "b": "b"}',
        '{"notes": 5 "b"}',
        '{"notes": null, x "final_answer": "b"}',
        '{"notes": {} : "b"}',
        '{"x": [1: "b"], "notes": "b"}',
        '{"notes": true {"b": "b"}, "final_answer": "b"}',
    ],
)
def test_a_bare_value_must_be_alone_between_marks(text: str) -> None:
    for cuts in (None, []):
        reader = run(text, cuts)
        assert reader.stream.broken
        assert "b" not in reader.values.values()


@given(decision=DECISIONS, cuts=CUTS, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 2))
@example(decision={"a": {"b": "\\"}, "notes": [[{"c": "]"}], 1]}, cuts=[], ascii_only=True, indent=None)
@example(decision={"a": -1.5e-3, "notes": None, "action": False}, cuts=[], ascii_only=True, indent=1)
def test_a_value_other_than_a_string_is_passed_as_json_at_every_cut(
    decision: dict[str, Any], cuts: list[int], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(decision, ensure_ascii=ascii_only, indent=indent)
    reader = Reader((), json_paths=tuple((key,) for key in decision))
    for start, end in pairwise([0, *sorted({c for c in cuts if c < len(text)}), len(text)]):
        reader.feed(text[start:end])
    expected = {(key,): value for key, value in json.loads(text).items() if not isinstance(value, str | None)}
    assert {path: json.loads(value) for path, value in reader.values.items()} == expected
    assert reader.ended == list(expected)


@pytest.mark.parametrize("text", ['{"a": tru, "b": [1]}', '{"a": 01, "b": [1]}', '{"a": 1 2, "b": [1]}'])
def test_an_invalid_word_ends_the_stream_of_a_json_value(text: str) -> None:
    reader = Reader((), json_paths=(("a",), ("b",)))
    reader.feed(text)
    assert (reader.received, reader.stream.broken) == ([], True)
