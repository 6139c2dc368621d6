"""Citations as models spell them: read right, or left out and counted; and within a link no other link."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.source import Citation
from stepline.protocol.citation.citation_stream import CitationStream, cite, render_citations
from stepline.protocol.citation.token import cited_sids, parse_ids, read_ids, renumber_citations

SOURCES = {
    sid: Citation(sid=sid, title=f"T{sid}", url=f"https://{sid}.example/") for sid in (1, 2, 3, 12, 123)
}


def link(*sids: int) -> str:
    return " ".join(f'[T{sid}](https://{sid}.example/ "S:{sid}")' for sid in sids)


def fed(pieces: list[str], kind: str = "markdown") -> tuple[str, CitationStream]:
    stream = CitationStream(SOURCES, kind)
    return "".join([*(stream.feed(piece) for piece in pieces), stream.close()]), stream


READABLE = {
    "[[S:1, S:2]]": (1, 2),
    "[[S:1,S2, s: 3]]": (1, 2, 3),
    "[[S:1; 2]]": (1, 2),
    "[[S:1；2、3]]": (1, 2, 3),  # noqa: RUF001 - the full-width forms are the matter
    "[[S:1 & 2 and S:3]]": (1, 2, 3),
    "[[S:1\n2]]": (1, 2),
    "[[S:1,\r\n 2]]": (1, 2),
    "[[\nS:\n1\n]]": (1,),
    "[[S:1-S:3]]": (1, 2, 3),
    "[[S:1 -\n3]]": (1, 2, 3),
    "[[S:１,２]]": (1, 2),  # noqa: RUF001 - as above
    "[[S:,1,,2,]]": (1, 2),
}


@pytest.mark.parametrize(("token", "sids"), READABLE.items(), ids=repr)
@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_a_citation_is_read_in_every_spelling_of_its_numbers(
    token: str, sids: tuple[int, ...], kind: str
) -> None:
    shown, stream = fed([f"so {token}."], kind)
    assert (stream.used, stream.unresolved, stream.unreadable) == (sids, (), 0)
    assert cited_sids(token) == sids
    assert kind == "html" or shown == f"so {link(*sids)}."


UNREADABLE = {
    "[[S:1 2]]": (),
    "[[S:12 3]]": (),
    "[[S:1\u202f2]]": (),
    "[[S:1\u200b2]]": (),
    "[[S:1\u00a02, 3]]": (3,),
    "[[S:1, 2 3]]": (1,),
    "[[S:1-2 3]]": (),
    "[[S:1.2]]": (),
    "[[S:1/2]]": (),
    "[[S:1-2-3]]": (),
    "[[S:1, x]]": (1,),
    "[[S:]]": (),
    "[[S: ]]": (),
    "[[S:,]]": (),
    "[[S:x]]": (),
    "[[S:0]]": (),
    "[[S:1-]]": (),
    "[[S:-1]]": (),
    "[[S:1234567890]]": (),
    "[[S:the first source]]": (),
}


@pytest.mark.parametrize(("token", "sids"), UNREADABLE.items(), ids=repr)
@pytest.mark.parametrize("kind", ["markdown", "text", "html"])
def test_unreadable_citations_are_left_out_and_counted(token: str, sids: tuple[int, ...], kind: str) -> None:
    shown, stream = fed([f"so {token}."], kind)
    assert (stream.used, stream.unresolved, stream.unreadable) == (sids, (), 1)
    assert kind == "html" or shown == f"so {link(*sids)}."
    assert sids or shown == "so ."
    assert cited_sids(token) == sids
    assert cite(SOURCES, [token]).unresolved == (0,)


@pytest.mark.parametrize("text", ["`[[S:1 2]]`", "```\n[[S:x]]\n```"])
def test_a_token_in_code_is_never_unreadable(text: str) -> None:
    shown, stream = fed([text])
    assert (shown, stream.unreadable) == (text, 0)


def test_citations_are_kept_if_there_are_no_sources() -> None:
    assert render_citations("[[S:1 2]]", {}, "markdown") == "[[S:1 2]]"
    assert cite({}, ["[[S:x]]"]) == ((), ())


def test_a_blank_line_ends_what_may_be_a_citation() -> None:
    assert fed(["[[S:1\n \n2]]"])[0] == "[[S:1\n \n2]]"


@given(st.lists(st.sampled_from(["1", "2", "12", "3", " ", "\u00a0", "\u2009", "\u200b", "\t"]), max_size=4))
def test_blanks_never_make_another_number(parts: list[str]) -> None:
    ids = "".join(parts)
    written = "".join(part if part.isdigit() else " " for part in parts).split()
    assert {sid for span in parse_ids(ids) for sid in span} <= set(map(int, written))
    assert read_ids(ids).unreadable == (len(written) != 1)


def test_an_answer_that_moves_keeps_the_numbers_of_every_spelling() -> None:
    assert renumber_citations("a [[S:1; S:2]] b [[S:1 2]]", {1: 7, 2: 8}) == "a [[S:7,8]] b "


IN_LINKS = {
    "[see [[S:1]]](https://x.example)": r"[see \[S:1\]](https://x.example)",
    "[[[S:1,2]]](https://x.example)": r"[\[S:1\] \[S:2\]](https://x.example)",
    "[a [b [[S:1]] c] d](x)": r"[a [b \[S:1\] c] d](x)",
    "[a [[S:1]] b [[S:2]]][ref]": r"[a \[S:1\] b \[S:2\]][ref]",
    "![a [[S:1]]](a.png)": r"![a \[S:1\]](a.png)",
    "[a [[S:1 2]]](x)": "[a ](x)",
    "[a [[S:1]]]([[S:2]])": r'[a \[S:1\]](https://2.example/ "S:2")',
    # no links
    "[see [[S:1]]] (x)": f"[see {link(1)}] (x)",
    "[see [[S:1]]": f"[see {link(1)}",
    "[0, 1) and [[S:1]]\n\nnext](x)": f"[0, 1) and {link(1)}\n\nnext](x)",
    "\\[see [[S:1]]](x)": f"\\[see {link(1)}](x)",
    "[a](x) [[S:1]] [b](y)": f"[a](x) {link(1)} [b](y)",
    "- [ ] do [[S:1]](x)": f"- [ ] do {link(1)}(x)",
    f"[{'x' * 9} [[S:1]] {'y' * 500}](x)": f"[{'x' * 9} {link(1)} {'y' * 500}](x)",
}


@pytest.mark.parametrize(("text", "shown"), IN_LINKS.items(), ids=repr)
def test_a_citation_in_the_text_of_a_link_is_its_number_alone(text: str, shown: str) -> None:
    whole, stream = fed([text])
    assert whole == shown
    assert fed(list(text))[0] == shown
    assert stream.used == (
        () if "1 2" in text else tuple(sid for sid in (1, 2) if str(sid) in text and f"S:{sid}" in shown)
    )


PARTS = (
    *READABLE,
    *UNREADABLE,
    *(
        "[",
        "]",
        "[[",
        "]]",
        "S",
        ":",
        "1",
        " ",
        "\n",
        "\r",
        ",",
        "-",
        "](",
        "](x)",
        "][",
        "\\",
        "`",
        "!",
        "\u200b",
        "and",
    ),
)


@given(
    st.lists(st.sampled_from(PARTS), max_size=25)
    .map("".join)
    .flatmap(lambda text: st.tuples(st.just(text), st.lists(st.integers(0, len(text))))),
    st.sampled_from(["markdown", "html"]),
)
def test_every_spelling_is_shown_alike_however_its_text_is_cut(
    made: tuple[str, list[int]], kind: str
) -> None:
    text, cuts = made
    at = sorted({0, len(text), *cuts})
    pieces = [text[start:end] for start, end in itertools.pairwise(at)]
    results = [fed(one, kind) for one in (pieces, [text], list(text))]
    assert len({(shown, one.used, one.unresolved, one.unreadable) for shown, one in results}) == 1
