"""Citations in a text that grows: what is a token, what it becomes, and that nothing else changes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.source import Citation, Source
from stepline.protocol.citation.citation_stream import CitationStream, citable, cite, render_citations
from stepline.protocol.citation.token import cited_sids, expand, parse_ids

SOURCES = {
    1: Citation(sid=1, title="One", url="https://one.example/a"),
    2: Citation(sid=2, title="Two", url="https://two.example/"),
    3: Citation(sid=3, title="Three", url="https://three.example/"),
    4: Citation(sid=4, title="A chart"),
    5: Citation(sid=5, title="A file", path="fi:turn_1.files/a.csv"),
}
DOCUMENT = {1: Citation(sid=1, title="A page", path="ks:docs/a (1).md")}
PARTS = (
    *(
        "[[S:1]]",
        "[",
        "]",
        "[[",
        "S",
        ":",
        "1",
        ",",
        "-",
        "3",
        "9",
        " ",
        "\n",
        "`",
        "```",
        "\\",
        "a",
        "!",
        "\u200b",
    ),
    *(
        "<",
        ">",
        "<sup class='cite' data-sids='1'>",
        "</sup>",
        "<code>",
        "</code>",
        "<a href='x'>",
        "</a>",
        "](",
        "~~~",
        "<!--",
        "-->",
        '="',
        '"',
        "\uff3b",
    ),
)
"""What a text is cut from in which anything may be a token, or nearly one."""

ONE, TWO, THREE, FILE = (
    '[One](https://one.example/a "S:1")',
    '[Two](https://two.example/ "S:2")',
    '[Three](https://three.example/ "S:3")',
    '[A file](fi:turn_1.files/a.csv "S:5")',
)


def link(sid: int) -> str:
    url = SOURCES[sid].url
    return f'<a href="{url}" target="_blank" rel="noopener noreferrer">[S:{sid}]</a>' if url else f"[S:{sid}]"


def sup(*sids: int) -> str:
    return f'<sup class="cite" data-sids="{",".join(map(str, sids))}">{" ".join(map(link, sids))}</sup>'


def markdown(text: str) -> str:
    return render_citations(text, SOURCES, "markdown")


def html(text: str) -> str:
    return render_citations(text, SOURCES, "html")


def fed(pieces: list[str], kind: str = "markdown") -> tuple[list[str], CitationStream]:
    stream = CitationStream(SOURCES, kind)
    return [*(stream.feed(piece) for piece in pieces), stream.close()], stream


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("[[S:1]]", ONE),
        ("[[s:1]]", ONE),
        ("[[ S : 1 ]]", ONE),
        ("[[S:001]]", ONE),
        ("[[S:1,3]]", f"{ONE} {THREE}"),
        ("[[S:3,1]]", f"{THREE} {ONE}"),
        ("[[S:1,1,1-2]]", f"{ONE} {TWO}"),
        ("[[S:1-3]]", f"{ONE} {TWO} {THREE}"),
        ("[[S:3-1]]", f"{ONE} {TWO} {THREE}"),
        ("[[S:1\u20133]]", f"{ONE} {TWO} {THREE}"),
        ("[[S:1 \u2014 3]]", f"{ONE} {TWO} {THREE}"),
        ("[[S:1,x,-,2-,0,2]]", f"{ONE} {TWO}"),
        ("[[S:4]]", "A chart"),
        ("\uff3b\uff3bS\uff1a1\uff3d\uff3d", ONE),
        ("\ufe5d\ufe5dS\ufe551\uff0c2\ufe5e\ufe5e", f"{ONE} {TWO}"),
        ("[[S\ufe131]]", ONE),
        ("[\u200b[\ufeffS\u200d:\u20601\u200b]\u200b]", ONE),
        ("[[[S:1]]]", f"[{ONE}]"),
        ("[[S:1]][[S:2]]", f"{ONE}{TWO}"),
    ],
)
def test_a_token_becomes_its_links(token, shown):
    assert markdown(f"so it is {token}.") == f"so it is {shown}."


@pytest.mark.parametrize(
    "text",
    [
        "[S:1]",
        "[[S:1]",
        "[[S:1] ]",
        "[[S 1]]",
        "[[T:1]]",
        "[[S:[1]]]",
        "[[S:" + "1," * 300 + "1]]",
        "a [[link]] and [one](x)",
    ],
)
@pytest.mark.parametrize("kind", ["markdown", "text", "html"])
def test_text_that_only_looks_like_a_token_is_unchanged(text, kind):
    assert render_citations(text, SOURCES, kind) == text


def test_a_document_is_linked_by_its_path():
    shown = render_citations("See [[S:1]] and [it]([[S:1]]).", DOCUMENT, "markdown")
    address = 'ks:docs/a%20%281%29.md "S:1"'
    assert shown == f"See [A page]({address}) and [it]({address})."


@pytest.mark.parametrize("kind", ["json", "yaml", "xml", "mermaid", "python", ""])
def test_a_format_without_links_passes_unchanged(kind):
    assert render_citations('{"a": "[[S:1]]"}', SOURCES, kind) == '{"a": "[[S:1]]"}'


@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_without_sources_nothing_is_replaced(kind):
    stream = CitationStream({}, kind)
    assert stream.feed("a [[S:1]] [[S") + stream.close() == "a [[S:1]] [[S"
    assert stream.used == stream.unresolved == ()


# Tails that looked like tokens were lost.
@pytest.mark.parametrize(
    "tail", ["[", "[[", "[[S", "[[S:", "[[S:1,2-", "[[S:1]", "[[ s", "\uff3b", "<", "<sup cl"]
)
@pytest.mark.parametrize("kind", ["markdown", "html"])
@pytest.mark.parametrize("rest", ["", " and then fifty more characters of ordinary text here"])
def test_no_tail_is_lost(tail, kind, rest):
    whole = f"a list {tail}{rest}"
    assert render_citations(whole, SOURCES, kind) == whole
    pieces, _ = fed(list(whole), kind)
    assert "".join(pieces) == whole


# The whole text was normalised as soon as there were sources.
@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_only_citation_tokens_are_changed(kind):
    text = "em\u2014dash en\u2013dash \uff1a \uff3bx\uff3d \u200bzero \U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\r\n"
    one = sup(1) if kind == "html" else ONE
    assert render_citations(f"{text}[[S:1]]{text}", SOURCES, kind) == f"{text}{one}{text}"


def test_full_width_tokens_resolve_in_html_too():
    assert html("\uff3b\uff3bS\uff1a1\u20132\uff3d\uff3d") == sup(1, 2)


# Characters without width were taken from the stored text; here they count as nothing in tokens only.
def test_joiners_survive_around_a_token():
    family = "\U0001f468\u200d\U0001f469"
    assert markdown(f"{family}[[\u200dS:1]]{family}") == f"{family}{ONE}{family}"


# Markup of the form that models write themselves.
@pytest.mark.parametrize(
    "written",
    [
        '<sup class="cite" data-sids="1,3">[[S:1,3]]</sup>',
        "<sup class='cite' data-sids='1,3'>[[S:1,3]]</sup>",
        "<sup class=cite data-sids=1,3>[[S:1,3]]</sup>",
        '<sup data-sids="1,3" class="cite">[[S:1,3]]</sup>',
        '<SUP CLASS="cite"  DATA-SIDS="1, 3" > [[S:1,3]] </SUP >',
        '<sup class="cite" data-sids="1,3">[S:1] [S:3]</sup>',
        '<sup class="cite" data-sids="1,3"></sup>',
        '<sup class="cite" data-sids="1,3">1, 3</sup>',
        "[[S:1,3]]",
    ],
)
def test_every_way_to_write_a_raised_citation_becomes_one_form(written):
    assert html(f"<p>so {written}.</p>") == f"<p>so {sup(1, 3)}.</p>"
    assert html(html(f"<p>so {written}.</p>")) == f"<p>so {sup(1, 3)}.</p>"


def test_a_token_that_is_raised_already_is_not_raised_again():
    assert html("<sup>[[S:1]]</sup> [[S:1]]") == f"<sup>{link(1)}</sup> {sup(1)}"
    assert html('<sup class="note">[[S:1]]</sup>') == f'<sup class="note">{link(1)}</sup>'


def test_a_raised_citation_that_never_ends_keeps_its_text_and_its_links():
    opening = '<sup class="cite" data-sids="1">'
    assert html(f"{opening}[[S:1]] on") == f"{opening}{link(1)} on"
    long = "x" * 2_000
    assert html(f"{opening}{long}[[S:2]]</sup>") == f"{opening}{long}{link(2)}</sup>"


def test_a_raised_citation_of_unknown_sources_is_removed():
    assert html('a<sup class="cite" data-sids="9">[[S:9]]</sup>b') == "ab"


# A range was once expanded before it was compared with the known sources.
def test_a_huge_range_is_the_known_part_of_it():
    shown, stream = fed(["[[S:1-999999999]]"])
    assert "".join(shown) == f"{ONE} {TWO} {THREE} A chart {FILE}"
    assert stream.used == (1, 2, 3, 4, 5)
    assert stream.unresolved == (999_999_999,)
    assert expand(parse_ids("2-999999999"), [1, 2, 10**8]) == ((2, 10**8), (999_999_999,))


def test_without_known_sources_a_range_is_bounded():
    assert len(cited_sids("[[S:1-999999999]] [[S:5-999999999]]")) == 500


# One rule for every format.
@pytest.mark.parametrize(("kind", "one"), [("markdown", ONE), ("html", sup(1))])
def test_an_unknown_sid_is_left_out_and_reported(kind, one):
    shown, stream = fed(["a [[S:7,1]] b [[S:9]] c"], kind)
    assert "".join(shown) == f"a {one} b  c"
    assert stream.used == (1,)
    assert stream.unresolved == (7, 9)


# Code is code.
@pytest.mark.parametrize(
    "text",
    [
        "`[[S:1]]`",
        "``a ` [[S:1]]``",
        "```\n[[S:1]]\n```",
        "```python\nx[[S:1]]\n\n`[[S:2]]\n```\n",
        "text\n````md\n```\n[[S:1]]\n```\n[[S:2]]\n````",
        "```json [[S:1]] ```",
        "```\nnever closed [[S:1]]",
        "~~~\n[[S:1]]\n```\n[[S:2]]\n~~~",
    ],
)
def test_tokens_in_markdown_code_are_unchanged(text):
    assert markdown(text) == text
    pieces, stream = fed(list(text))
    assert "".join(pieces) == text
    assert stream.used == ()


def test_a_stray_backtick_hides_tokens_to_the_end_of_its_line_only():
    assert markdown("a ` b [[S:1]]\nc [[S:1]]") == f"a ` b [[S:1]]\nc {ONE}"


def test_code_that_is_over_hides_nothing():
    assert markdown("`x` [[S:1]]\n```\ny\n```\n[[S:2]]") == f"`x` {ONE}\n```\ny\n```\n{TWO}"


@pytest.mark.parametrize(
    "text",
    [
        "<code>[[S:1]]</code>",
        "<pre><code>[[S:1]]</code> [[S:2]]</pre>",
        "<PRE class='x'>[[S:1]]</PRE>",
        '<p title="[[S:1]]">x</p>',
        "<p title='>[[S:1]]'>x</p>",
        "<!-- [[S:1]] > -->",
        "<script>if (a < b) x = '[[S:1]]'</script>",
        "<style>/* </p> [[S:1]] */</style>",
        "<title>[[S:1]]</title>",
        "<xmp><p>[[S:1]]</xmp>",
        '<code><sup class="cite" data-sids="1">[[S:1]]</sup></code>',
    ],
)
def test_tokens_in_html_code_and_markup_are_unchanged(text):
    assert html(text) == text
    assert html(f"{text}[[S:1]]") == f"{text}{sup(1)}"
    assert "".join(fed(list(text), "html")[0]) == text


def test_a_lone_angle_bracket_is_text():
    assert html("1 < 2 [[S:1]] a<b [[S:2]]>") == f"1 < 2 {sup(1)} a<b [[S:2]]>"


def test_signs_of_a_tag_in_ordinary_text_hide_no_citation():
    assert markdown("[x] a = [[S:1]]") == f"[x] a = {ONE}"
    assert markdown("see <X a='[[S:1]]'>") == "see <X a='[[S:1]]'>"


def test_an_entity_in_a_title_is_shown_literally():
    title = {1: Citation(sid=1, title="a &lt; b & c", url="https://one.example/a")}
    shown = render_citations("[[S:1]]", title, "markdown")
    assert shown == '[a &amp;lt; b & c](https://one.example/a "S:1")'


def test_the_character_before_a_link_does_not_change_its_meaning():
    assert markdown("![[S:1]] \\[[S:1]]") == f"! {ONE} \\ {ONE}"
    assert markdown("![[S:9]][[S:1]]") == f"! {ONE}"


@pytest.mark.parametrize("picture", ["![x](", "![](", "![a [b] c](", "![x](<", "[![x](", f"![{'x' * 2000}]("])
def test_a_citation_never_becomes_the_url_of_an_image(picture):
    assert markdown(f"{picture}[[S:1]])") == f"{picture})"
    assert "".join(fed(list(f"{picture}[[S:1]])"), "markdown")[0]) == f"{picture})"


@pytest.mark.parametrize("link", ["[x](", "[![a](b.png)](", "! [x](", "![a](b.png) [x]("])
def test_a_citation_used_as_a_url_gets_a_title_that_marks_it(link):
    assert markdown(f"{link}[[S:1]])") == f'{link}https://one.example/a "S:1")'
    assert markdown(f"{link}[[S:9,2]] \t)") == f'{link}https://two.example/ "S:2" \t)'
    assert markdown(f"{link}[[S:5]])") == f'{link}fi:turn_1.files/a.csv "S:5")'
    assert markdown(f"{link}[[S:4]])") == f"{link})"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[x](", ' "mine")'),
        ("[x](", ""),
        ("[x](", "\n)"),
        ("[x](", f"{' ' * 16})"),
        ("[x](", "#top)"),
        ("[x](<", ">)"),
        ("[x]: <", ">"),
        ("[x]: <", "\n"),
        ("[x]: ", ' "mine"'),
        ("[x]: ", " )"),
    ],
)
def test_a_citation_is_only_the_url_if_no_title_fits(before, after):
    assert markdown(f"{before}[[S:1]]{after}") == f"{before}https://one.example/a{after}"
    assert markdown(f"{before}[[S:5]]{after}") == f"{before}{after}"
    assert "".join(fed(list(f"{before}[[S:1]]{after}"))[0]) == f"{before}https://one.example/a{after}"


@pytest.mark.parametrize("after", ["", "\n", " \t\nmore"])
def test_a_citation_in_a_link_definition_gets_a_title_that_marks_it(after):
    assert markdown(f"[x]: [[S:1]]{after}") == f'[x]: https://one.example/a "S:1"{after}'


@given(
    st.lists(
        st.sampled_from(("[x](", "[x]: ", "![x](", "[[S:1]]", "[[S:5]]", "[[S:9]]", " ", "\t", *')<>\n"a'))
    )
    .map("".join)
    .flatmap(lambda text: st.tuples(st.just(text), st.lists(st.integers(0, len(text))))),
)
def test_an_address_does_not_depend_on_how_its_text_is_cut(made):
    text, cuts = made
    at = sorted({0, len(text), *cuts})
    pieces = [text[start:end] for start, end in itertools.pairwise(at)]
    assert "".join(fed(pieces)[0]) == markdown(text) == "".join(fed(list(text))[0])


def test_an_address_is_held_back_for_no_more_than_a_few_blanks():
    pieces, _ = fed(["[x](", "[[S:1]]", *[" "] * 16, ")"])
    assert pieces[:2] == ["[x](", ""]
    assert pieces[17:] == [f"https://one.example/a{' ' * 16}", ")", ""]


def test_text_is_shown_as_soon_as_it_can_be_no_token():
    pieces, _ = fed(["plain", "a [", "x", "[[S", ":9", "9", "]", " ]", "`"])
    assert pieces == ["plain", "a ", "[x", "", "", "", "", "[[S:99] ]", "`", ""]


def test_the_text_held_back_is_bounded():
    stream = CitationStream(SOURCES, "markdown")
    given = shown = most = 0
    for piece in ["[[S:", *["1"] * 1_000]:
        given += len(piece)
        shown += len(stream.feed(piece))
        most = max(most, given - shown)
    assert shown == given
    assert most < 420


@given(
    st.lists(
        st.sampled_from(PARTS),
        max_size=40,
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=60),
    st.sampled_from(["markdown", "html", "text"]),
)
def test_the_result_is_the_same_however_the_text_was_cut(parts, sizes, kind):
    text = "".join(parts)
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    shown, stream = fed([*pieces, text[at:]], kind)
    whole = CitationStream(SOURCES, kind)
    assert "".join(shown) == whole.feed(text) + whole.close()
    assert (stream.used, stream.unresolved) == (whole.used, whole.unresolved)


@given(st.integers(0, 40), st.integers(900, 1_100), st.sampled_from(["[", "a[b", "[[S:9]]"]))
def test_a_long_paragraph_is_the_same_however_it_was_cut(size, chars, between):
    text = f"{'x' * chars}{between} <b {'y' * size}{between}{'z' * (1_000 - size)}<i {between} [[S:1]]"
    pieces, stream = fed(list(text))
    assert "".join(pieces) == markdown(text)
    assert stream.used == (1,)


@given(st.text(alphabet="[]S:,-19x \n`", max_size=80))
def test_a_text_without_a_whole_token_is_returned_unchanged(text):
    stream = CitationStream(SOURCES, "markdown")
    shown = stream.feed(text) + stream.close()
    assert stream.used or stream.unresolved or shown == text


@given(st.text(alphabet="[]S: ,-19a\n", max_size=60))
def test_any_text_cites_a_bounded_list_of_positive_numbers(text):
    sids = cited_sids(text)
    assert len(set(sids)) == len(sids) <= 500
    assert all(sid > 0 for sid in sids)


def test_a_long_run_of_pieces_does_not_pile_up():
    stream = CitationStream(SOURCES, "markdown")
    for _ in range(10_000):
        assert stream.feed("x") == "x"
    assert stream.feed(" `[[S:1]]") == " `[[S:1]]"
    assert stream.feed("\n[[S:1]]") == f"\n{ONE}"


def test_the_citations_of_texts_are_known_rows_in_their_order():
    pool = {
        1: Source(sid=1, title="One", url="https://one.example/a", text="long"),
        2: Source(sid=2, title="Chart", source_type="file", mime="image/png", path="fi:turn_1.outputs/c.png"),
        3: Source(sid=3, title="Odd", url="ftp://three.example/"),
    }
    known = citable(pool)
    found = cite(known, ["so [[S:3,9]]", "and [[S:1-2]] `[[S:4]]`", "no more [[S:1]]"])
    assert found.citations == (
        Citation(sid=3, title="Odd"),
        Citation(sid=1, title="One", url="https://one.example/a"),
        Citation(sid=2, title="Chart", path="fi:turn_1.outputs/c.png"),
    )
    assert found.unresolved == (9,)
    assert cite({}, ["[[S:1]]"]) == ((), ())
    assert cite({}, ["[[S:1]]"], pooled=True) == ((), (1,))


def test_every_number_is_unknown_if_the_stream_gets_none_of_the_pools_sources():
    stream = CitationStream({}, "markdown", pooled=True)
    assert stream.feed("a [[S:1]] `[[S:2]]`") + stream.close() == "a  `[[S:2]]`"
    assert stream.unresolved == (1,)


def test_a_range_over_a_large_pool_is_cut():
    sources = {sid: Citation(sid=sid, title="T") for sid in range(1, 2_001)}
    assert cite(sources, ["[[S:1-2000]]"]).citations == tuple(sources[sid] for sid in range(1, 501))
