import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.protocol.parser.tags import JsonScanner, MarkdownScanner, ProgramScanner


@pytest.mark.parametrize(
    ("pieces", "span"),
    [
        (["plain"], ""),
        (["a ` b"], "inline"),
        (["a `b` c"], ""),
        (["a `` b ` c"], "inline"),
        (["a `` b ` c `` d"], ""),
        (["a ` b\nc"], ""),
        (["a ` b", "\nc"], ""),
        (["a ` b\n```\nc\n```\n"], ""),
        (["a ` b", "\n```\nx\n```\nc"], ""),
        (["a ` b", " c ` d"], ""),
        (["```\ncode"], "fence"),
        (["```json\n{}"], "fence"),
        (["```\ncode", "\nmore ` still"], "fence"),
        (["```\ncode", "\n```\nprose"], ""),
        (["   ```\ncode"], "fence"),
        (["    ```\nindented"], ""),
        (["say ```\nnot a fence"], ""),
        (["say ``` still a span"], "inline"),
        (["```` \n```\nstill"], "fence"),
        (["````\n`````\nover"], ""),
        (["```json {} ``` after"], ""),
        (["```json {} `` after"], "fence"),
        (["```\nx ``` y"], "fence"),
        (["", ""], ""),
    ],
)
def test_spans_of_markdown_are_followed(pieces: list[str], span: str) -> None:
    scanner = MarkdownScanner()
    assert [scanner.read(piece) for piece in pieces][-1] == span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("~~~\na", "fence"),
        ("~~~ a ~~~\nb", "fence"),
        ("~~~\na\n~~~\n", ""),
        ("~~~\n```\nb", "fence"),
        ("~~~\n```\n~~~\n", ""),
        ("```\n~~~\nb", "fence"),
        ("~~~~\n~~~\n", "fence"),
        ("say ~~~ so", ""),
        ("`~~~` b", ""),
    ],
)
def test_fences_of_tildes_are_followed(text: str, span: str) -> None:
    assert MarkdownScanner().read(text) == span


@pytest.mark.parametrize(
    ("pieces", "span"),
    [
        (['{"a'], "string"),
        (['{"a": "b"}'], ""),
        (['{"a\\"'], "string"),
        (['{"a\\\\"'], ""),
        (['{"a\\\\\\"'], "string"),
        (['{"a\\', '" b'], "string"),
        (['{"a\\\\', '" b'], ""),
        (['{"a\\', '\\" b'], ""),
        (['{"a\\', "", '" b'], "string"),
    ],
)
def test_strings_of_json_are_followed(pieces: list[str], span: str) -> None:
    scanner = JsonScanner()
    assert [scanner.read(piece) for piece in pieces][-1] == span


@given(text=st.text(alphabet='a"\\<\n', max_size=20), cuts=st.lists(st.integers(0, 25), max_size=4))
def test_a_string_cut_anywhere_is_still_a_string(text: str, cuts: list[int]) -> None:
    written = json.dumps({"a": text})
    places = [0, *sorted({cut for cut in cuts if cut < len(written)}), len(written)]
    scanner = JsonScanner()
    spans = [scanner.read(written[start:end]) for start, end in pairwise(places)]
    assert spans[-1] == ""
    opened = JsonScanner()
    assert opened.read(written[:-2]) == "string"


def test_program_text_knows_only_where_lines_start() -> None:
    scanner = ProgramScanner()
    assert [scanner.read(piece) for piece in ("", "a", "", "b\n", "", "`")] == [
        "line",
        "program",
        "program",
        "line",
        "line",
        "program",
    ]
