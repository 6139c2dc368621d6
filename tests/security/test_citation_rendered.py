"""Markdown with the links of strangers in it, through a real renderer that lets HTML pass: nothing of theirs acts."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlsplit

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from stepline.model.source import Citation
from stepline.protocol.citation.citation_stream import render_citations
from tests.support.budget import budget

RENDERER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

HOSTILE = st.lists(
    st.sampled_from(
        (
            *(
                "javascript:alert(1)",
                "(javascript:x)",
                ": javascript:x",
                "](javascript:x)",
                "onclick=x",
                "</script>",
            ),
            *(
                "<script>",
                "<img src=x onerror=a>",
                "<https://evil.example>",
                "[x](https://evil.example)",
                "&lt;",
            ),
            *(
                "`",
                "```",
                "|",
                "'",
                "\\",
                "[",
                "]",
                "!",
                "#",
                "- ",
                "1. ",
                "~~",
                "**",
                "<!--",
                "-->",
                "\n",
                " ",
                "a",
            ),
        )
    ),
    max_size=5,
).map("".join)
WRITTEN = st.lists(
    st.sampled_from(
        (
            *(
                "[[S:1]]",
                "[[S:2]]",
                "[[S:3]]",
                "[[S:9]]",
                "[[S:1-3]]",
                "[",
                "]",
                "](",
                "(",
                ")",
                "!",
                "`",
                "```",
            ),
            *(
                "\n",
                "\n\n",
                " ",
                "    ",
                "a",
                "- ",
                "> ",
                "1. ",
                "<",
                ">",
                "<b>",
                "</b>",
                "<b ",
                "<div>",
                "</div>\n",
            ),
            *(
                "<p x='[[S:1]]'>",
                '<p x="[[S:2]]">',
                "<p x=[[S:2]]>",
                "[a]: ",
                "\n[x]:\n",
                "[a]",
                "|",
                "\\",
                "~~~\n",
            ),
            *("*", "_", "# ", " 'x'"),
        )
    ),
    max_size=14,
).map("".join)


class Danger(HTMLParser):
    """Collects what would act, or lead to a stranger's place."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(RENDERER.render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img"):
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (name == "href" and _leads_away(value or "")):
                self.found.append(f"{name}={value}")


def _leads_away(url: str) -> bool:
    parts = urlsplit(url.replace("[", "").replace("]", ""))
    return parts.scheme == "javascript" or "evil" in parts.netloc


@settings(max_examples=budget(30, 6000))
@given(WRITTEN, st.tuples(HOSTILE, HOSTILE, HOSTILE))
@example("[a]([[S:2]])", ("", "javascript:x", ""))
@example("<div>\n<b [[S:2]]>", ("", "x onclick=a", ""))
@example("[a][[S:2]]", ("", "(javascript:x)", ""))
@example("a<b [[S:2]]>", ("", "onclick=x", ""))
@example("[[S:2]][[S:1]]", ("a", "b!", ""))
def test_no_title_is_active_at_any_position_of_its_citation(text: str, titles: tuple[str, str, str]) -> None:
    one, two, three = titles
    sources = {
        1: Citation(sid=1, title=one, url="https://good.example/a"),
        2: Citation(sid=2, title=two),
        3: Citation(sid=3, title=three, url="https://good.example/b?x=(1)"),
    }
    shown = render_citations(text, sources, "markdown")
    assert Danger(shown).found == [] or Danger(text).found
