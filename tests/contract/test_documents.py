"""`rendering_tools.write_*`, drawn in the jail: each kind, each parameter, and text that means harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape

import pytest

from tests.contract.drawn_documents import KINDS, PNG, Drawing, call, codes, drawing

MARKDOWN = """\
# Herons

Grey **herons** wade, *slowly*, by `day` ~~and night~~: [a page](https://birds.example/herons?a=1&b=2).

- fish
- frogs
  1. small
  2. large

> Still water.

```python
wade(1 < 2)
```

| month | seen |
|---|---|
| May | 12 |
| June | **1,204.5** |

![A heron](outputs/heron.png)

---

## Habits

Last words.
"""


@pytest.fixture(scope="module")
def drawn() -> Iterator[Drawing]:
    with drawing() as found:
        yield found


@pytest.mark.parametrize("kind", ["pdf", "docx", "pptx", "html"])
def test_text_tables_code_links_and_pictures_are_in_the_document(drawn, kind):
    heron = drawn.bench.file("outputs/heron.png", PNG)
    found = drawn.draw(kind, MARKDOWN, files=(heron,), title="Birds & co <1>")
    text = unescape(found["read"]["text"])
    words = (
        "Birds & co <1>",
        "Herons",
        "herons",
        "day",
        "fish",
        "large",
        "Still water.",
        "wade(1 < 2)",
        "June",
        "Last",
    )
    assert [word for word in words if word not in text] == []
    assert "https://birds.example/herons?a=1&b=2" in [
        link.replace("&amp;", "&") for link in found["read"]["links"]
    ]
    assert found["read"]["pictures"] == 1
    assert codes(found) == []


def test_each_kind_reports_counts_of_its_own_units(drawn):
    heron = drawn.bench.file("outputs/heron.png", PNG)
    found = drawn.draw_all([(kind, call(kind, MARKDOWN)) for kind in KINDS], files=(heron,))
    counted = [
        {name for name, value in one.items() if isinstance(value, int)} - {"size_bytes"} for one in found
    ]
    assert counted == [
        {"pages"},
        {"paragraphs", "tables"},
        {"slides"},
        {"sheets", "rows"},
        {"width_px", "height_px"},
        {"elements"},
    ]
    assert all(value > 0 for one in found for value in one.values() if isinstance(value, int))


def test_tables_become_sheets_named_by_their_headings_and_no_text_becomes_a_formula(drawn):
    content = (
        "# Sales: 2026/27\n\n| a | b |\n|---|---|\n| 1 | =1+1 |\n| -2.5 | 007 |\n| 1,234 | @x |\n\n"
        "# Sales: 2026/27\n\n| c |\n|---|\n| 3 |\n\n> - | d |\n>   |---|\n>   | 4 |\n"
    )
    found = drawn.draw("xlsx", content)
    assert found["read"]["sheets"] == {
        "Sales  2026 27": [["a", "b"], [1, "=1+1"], [-2.5, "007"], [1234, "@x"]],
        "Sales  2026 27 2": [["c"], [3]],
        "Sales  2026 27 3": [["d"], [4]],
    }
    assert found["read"]["formulas"] == []
    assert codes(found) == []


def test_a_workbook_says_that_other_text_is_left_out_and_is_not_made_of_text_alone(drawn):
    table = "| a |\n|---|\n| 1 |\n"
    assert codes(drawn.draw("xlsx", f"Words.\n\n{table}")) == ["text_left_out"]
    assert drawn.draw("xlsx", "# Words\n\nand more")["code"] == "no_tables"


@pytest.mark.parametrize(
    ("kind", "params", "expected"),
    [
        ("pdf", {}, {"pages": 1}),
        ("pdf", {"landscape": True}, {"wide": True}),
        ("pdf", {"landscape": False}, {"wide": False}),
        ("pdf", {"format": "MD"}, {"pages": 1}),
        ("pdf", {"format": "mermaid"}, {"code": "format_unsupported"}),
        ("pdf", {"format": "html"}, {"code": "format_unsupported"}),
        ("pptx", {"format": "html"}, {"code": "format_unsupported"}),
        ("png", {"format": "mermaid"}, {"code": "format_unsupported"}),
        ("docx", {"format": "markdown"}, {"code": "bad_params"}),
        ("pdf", {"path": "a.docx"}, {"code": "extension_mismatch"}),
        ("pdf", {"path": "A.PDF"}, {"path": "turn_0001/outputs/A.PDF"}),
        ("pdf", {"path": "files/b/a.pdf"}, {"path": "turn_0001/files/b/a.pdf"}),
        ("pdf", {"path": "outputs/../../a.pdf"}, {"code": "path_dot_segment"}),
        ("pdf", {"path": "/etc/a.pdf"}, {"code": "path_absolute"}),
        ("pdf", {"content": " \n"}, {"code": "empty_content"}),
        ("pdf", {"content": "x" * 500_001}, {"code": "bad_params"}),
        ("pdf", {"other": 1}, {"code": "bad_params"}),
        ("png", {"fit": "viewport", "width": 300, "height": 200}, {"size": [300, 200]}),
        (
            "png",
            {"fit": "viewport", "width": 1200, "height": 800, "device_scale_factor": 1},
            {"size": [1200, 800]},
        ),
        ("png", {"fit": "cover"}, {"code": "bad_params"}),
        ("png", {"width": 8_001}, {"code": "bad_params"}),
        ("png", {"width": 64, "height": 64, "padding_px": 400}, {"code": "document_too_large"}),
        ("png", {"content": "word\n\n" * 3_000}, {"code": "document_too_large"}),
    ],
)
def test_each_parameter_and_its_refusal(drawn, kind, params, expected):
    found = drawn.draw(kind, **{"content": "A few words.", **params})
    found |= found.get("read", {})
    assert {name: found.get(name) for name in expected} == expected


def test_a_picture_is_cut_to_its_content_and_its_padding_and_zoom_make_it_larger(drawn):
    plain, padded, zoomed, doubled = (
        drawn.draw("png", "A few words.", **params)["width_px"]
        for params in ({}, {"padding_px": 132}, {"zoom": 2}, {"device_scale_factor": 4})
    )
    assert 200 < plain < 400
    assert 390 <= padded - plain <= 400
    assert zoomed > 1.7 * plain
    assert doubled > 1.7 * plain


def test_content_beyond_a_viewport_is_reported(drawn):
    found = drawn.draw("png", "word\n\n" * 50, fit="viewport", width=600, height=200)
    assert codes(found) == ["picture_cut"]


def test_letters_missing_from_the_font_are_reported(drawn):
    assert codes(drawn.draw("pdf", "A heron: 鷺")) == ["characters_not_in_font"]
    assert codes(drawn.draw("pdf", "Ünï ŵ ≤ я λ ш")) == []


def test_long_content_continues_on_the_next_page_and_slide(drawn):
    rows = "\n".join(f"| {n} | word |" for n in range(300))
    content = (
        f"# Many\n\n| a | b |\n|---|---|\n{rows}\n\n" + "word " * 5_000 + "\n\n```\n" + "x\n" * 200 + "```\n"
    )
    pdf, pptx = (drawn.draw(kind, content) for kind in ("pdf", "pptx"))
    assert pdf["pages"] > 10
    assert pptx["slides"] > 20
    assert pptx["read"]["text"].count("Many") == pptx["slides"]


DEEP = "".join(f"{'  ' * n}- item {n}\n" for n in range(40))
HOSTILE = {
    "deep lists": (DEEP, "nested_too_deep"),
    "deep quotes": (">" * 500 + " x", "nested_too_deep"),
    "deep quotes of the parser's limit": (">" * 20_000 + " x", "nested_too_deep"),
    "wide table": ("|".join("a" * 60) + "\n" + "|".join(["---"] * 60), "document_too_large"),
    "many cells": ("|a|b|\n|---|---|\n" + "|1|2|\n" * 10_001, "document_too_large"),
}


@pytest.mark.parametrize(("content", "code"), HOSTILE.values(), ids=HOSTILE)
def test_too_much_of_it_is_refused_for_every_kind(drawn, content, code):
    assert [one["code"] for one in drawn.draw_all([(kind, call(kind, content)) for kind in KINDS])] == [
        code
    ] * len(KINDS)


TOLERATED = {
    "deep emphasis": "*" * 4_000 + "a" + "*" * 4_000,
    "open brackets": "[" * 5_000 + "a",
    "open links": "[a](" * 2_000,
    "scripts and remote references": (
        '<script src="https://evil.example/x.js">alert(1)</script>\n\n<img src=https://evil.example/a.png onerror=x()>\n\n'
        '<link rel=stylesheet href=//evil.example><iframe src="file:///etc/passwd"></iframe>\n\n<svg onload=x()>'
    ),
    "markup of the writers": '<b>x</i> <font face="x"> <img src="/etc/passwd"/> <a name="x"> &amp; &bogus; {x} %s </para>',
    "links that run": "[a](javascript:alert(1)) [b](data:text/html,x) [c](file:///etc/passwd) [d](vbscript:x) ![e](file:///etc/passwd)",
    "controls": "a\x00b\x08c\x1b[31m\ufffe\u202e d \ue000",
    "one long word": "x" * 20_000,
    "an empty picture and an empty list": "-\n-\n\n>\n\n1.\n\n#\n\n***",
    "a long cell": "| a |\n|---|\n| " + "word " * 3_000 + "|",
}


@pytest.mark.parametrize("content", TOLERATED.values(), ids=TOLERATED)
def test_text_that_means_harm_is_text(drawn, content):
    content = f"Begin.\n\n{content}\n\n| t |\n|---|\n| u |\n"
    found = drawn.draw_all([(kind, call(kind, content)) for kind in KINDS])
    assert [one.get("code", "") + one.get("message", "") for one in found] == [""] * len(KINDS)
    pages = found[KINDS.index("html")]["read"]["text"]
    assert not any(
        tag in pages for tag in ("<script", "<iframe", "<link", "<svg", 'src="http', "href=javascript")
    )
    links = [link for one in found for link in one["read"]["links"]]
    assert [link for link in links if not link.startswith(("http://", "https://", "mailto:"))] == []


PICTURES = {
    "https://evil.example/a.png": "not_a_file_of_this_turn",
    "//evil.example/a.png": "not_a_file_of_this_turn",
    "/etc/passwd": "not_a_file_of_this_turn",
    "../../etc/passwd": "not_a_file_of_this_turn",
    "outputs/../../secret.png": "not_a_file_of_this_turn",
    "outputs/%2e%2e/%2e%2e/secret.png": "not_a_file_of_this_turn",
    "outputs%5c..%5csecret.png": "not_a_file_of_this_turn",
    "outputs/./a.png": "not_a_file_of_this_turn",
    "turn_0009/outputs/a.png": "not_a_file_of_this_turn",
    "fi:turn_0009.outputs/a.png": "not_a_file_of_this_turn",
    "data:image/png;base64,iVBORw0KGgo=": "not_a_file_of_this_turn",
    "outputs/link.png": "not_a_file_of_this_turn",
    "outputs/folder/heron.png": "not_a_file_of_this_turn",
    "outputs/pipe.png": "not_a_picture",
    "outputs": "not_found",
    "outputs/none.png": "not_found",
    "outputs/text.png": "not_a_picture",
    "outputs/bomb.png": "too_large",
    "outputs/page.svg": "not_a_picture",
}
MADE = """
from PIL import Image
Path("outputs").mkdir(exist_ok=True)
Path(OUTPUT_DIR, "secret.png").write_bytes(Path("outputs/heron.png").read_bytes())
os.symlink(os.path.join(OUTPUT_DIR, "secret.png"), "outputs/link.png")
os.mkdir("elsewhere")
os.symlink(os.path.abspath("outputs"), "outputs/folder")
os.mkfifo("outputs/pipe.png")
Path("outputs/text.png").write_text("no picture")
Path("outputs/page.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>')
Image.new("1", (20_000, 20_000)).save("outputs/bomb.png")
"""


@pytest.mark.parametrize("kind", ["pdf", "docx", "pptx", "html"])
def test_a_picture_is_a_file_of_the_turn_and_nothing_else_is_read_or_fetched(drawn, kind):
    heron = drawn.bench.file("outputs/heron.png", PNG)
    calls = [(kind, call(kind, f"![x](<{src}>)")) for src in PICTURES]
    found = drawn.draw_all(calls, files=(heron,), before=MADE)
    assert [one.get("code") for one in found] == ["missing_assets"] * len(PICTURES)
    assert [why in one["message"] for one, why in zip(found, PICTURES.values(), strict=True)] == [True] * len(
        PICTURES
    )


@pytest.mark.parametrize(
    "src", ["heron.png", "outputs/heron.png", "turn_0001/outputs/heron.png", "fi:turn_0001.outputs/heron.png"]
)
def test_a_picture_is_named_as_any_file_of_the_turn(drawn, src):
    heron = drawn.bench.file("outputs/heron.png", PNG)
    assert drawn.draw("pdf", f"![x]({src})", files=(heron,))["read"]["pictures"] == 1


def test_a_large_picture_and_one_of_another_format_are_drawn(drawn):
    made = """
from PIL import Image
Path("outputs").mkdir(exist_ok=True)
Image.new("RGB", (5_000, 4_000), "teal").save("outputs/large.jpg")
Image.new("RGB", (50, 40), "teal").save("outputs/small.webp")
Image.new("P", (50, 40)).save("outputs/small.gif")
"""
    content = "![a](large.jpg) and ![b](small.webp) and ![c](small.gif)"
    found = drawn.draw_all(
        [(kind, call(kind, content)) for kind in ("pdf", "docx", "pptx", "html")], before=made
    )
    assert [one["read"]["pictures"] for one in found] == [3, 3, 3, 3]


CITED = """
rows = agent_io_tools.tool_call(tool_id="web_tools.web_search", params={"queries": "prompt caching", "n": 2})
ADDRESSES = [row["url"] for row in rows]
print(json.dumps({"addresses": ADDRESSES}))
"""
CITING = "Caches help [[S:  2]], they say  [[S:1  ,\n2]]. `[[S:1]]` [[S:77]] [[S:1 2]]\n\n| a |\n|---|\n| b [[S:1]] |\n"


def cited(drawn, kind, **params):
    """Return the addresses of two sources, and a document that cites them."""
    calls = [(kind, call(kind, CITING, **params))]
    found, made = drawn.draw_all(calls, before=CITED, others=("web_tools.web_search",))
    return found["addresses"], made


@pytest.mark.parametrize("kind", KINDS)
def test_citations_become_footnotes_and_unknown_ones_are_reported(drawn, kind):
    addresses, made = cited(drawn, kind)
    assert made["sources_used"] == [2, 1]
    assert "missing_sources" in codes(made)
    if kind != "png":
        text = made["read"]["text"]
        assert "[[S:77]]" not in text
        assert "[[S:2]]" not in text
        assert "2]]" not in text
        assert "[2]" in text
    if kind in ("pdf", "docx", "html"):
        assert "Sources" in text
        assert "[[S:1]]" in text
        assert set(addresses) <= {*map(unescape, made["read"]["links"])}
    if kind == "xlsx":
        assert made["read"]["sheets"]["Sources"][1][2] == addresses[1]


@pytest.mark.parametrize(
    ("kind", "without"),
    [
        ("pdf", {"include_sources_section": False}),
        ("docx", {"include_sources_section": False}),
        ("html", {"include_sources_section": False}),
        ("pptx", {}),
    ],
)
def test_without_a_list_of_sources_a_footnote_leads_to_its_source(drawn, kind, without):
    addresses, made = cited(drawn, kind, **without)
    assert "Sources" not in made["read"]["text"]
    assert set(addresses) <= {*map(unescape, made["read"]["links"])}


def test_slides_end_with_their_sources_if_they_are_asked_to(drawn):
    addresses, made = cited(drawn, "pptx", include_sources_slide=True)
    assert "Sources" in made["read"]["text"]
    assert set(addresses) <= set(made["read"]["links"])


def test_a_workbook_may_leave_its_sources_out(drawn):
    _, made = cited(drawn, "xlsx", include_sources_section=False)
    assert list(made["read"]["sheets"]) == ["Table 1"]


def test_a_call_that_was_granted_before_its_program_began_is_drawn_without_a_supervisor(drawn):
    grant = {
        "path": f"{drawn.bench.turn}/outputs/a.html",
        "tokens": {},
        "sources": [],
        "missing_sources": [],
        "internal": [],
    }
    asked = {
        "tool_id": "rendering_tools.write_html",
        "params": {"path": "a.html", "content": "# Herons"},
        "grant": grant,
    }
    run = drawn.bench.ran(f"agent_io_tools.run_granted({json.dumps(asked)!r})", tools=())
    assert json.loads(run.program_log)["ok"] is True
    assert run.calls == ()
    assert b"<h1>Herons</h1>" in drawn.bench.bytes(run, "outputs/a.html")


def test_a_picture_that_the_user_does_not_see_is_not_drawn(drawn):
    grant = {"path": "turn_0001/outputs/a.html", "tokens": {}, "sources": [], "missing_sources": []}
    grant |= {"internal": ["turn_0001/outputs/heron.png"]}
    asked = {
        "tool_id": "rendering_tools.write_html",
        "params": {"content": "![x](heron.png)"},
        "grant": grant,
    }
    run = drawn.bench.ran(
        f"agent_io_tools.run_granted({json.dumps(asked)!r})",
        files=(drawn.bench.file("outputs/heron.png", PNG),),
        tools=(),
    )
    report = json.loads(run.program_log)
    assert (report["ok"], report["code"]) == (False, "missing_assets")
    assert "(internal)" in report["message"]
    assert run.files == ()


def test_a_tool_that_is_not_granted_to_the_run_draws_nothing(drawn):
    code = "agent_io_tools.tool_call(tool_id='rendering_tools.write_html', params={'path': 'a.html', 'content': 'x'})"
    run = drawn.bench.run(code, tools=())
    assert "tool_not_allowed" in run.program_log
    assert run.files == ()
