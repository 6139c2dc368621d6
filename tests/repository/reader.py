"""What reads foreign text with more than one expression, or asks one again and again. No tests here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from stepline.bundle.generation.channel_result import strip_fence
from stepline.bundle.generation.shown_text import UsageFilter
from stepline.context.summary_text import split_text
from stepline.errors import ToolError
from stepline.model.source import Citation
from stepline.programs.code import check_program
from stepline.programs.envelope import error_lines, last_exception, tracebacks
from stepline.protocol.citation.citation_stream import CitationStream
from stepline.protocol.citation.token import cited_sids
from stepline.protocol.decision.json_repair import repair
from stepline.protocol.parser.channel_parser import ChannelParser
from stepline.protocol.parser.field import FieldStream
from stepline.rendering.quote import inline, quote
from stepline.tools.plan import parse_acks
from stepline.tools.read.attach import count_pages
from stepline.tools.workfiles.patch import looks_pasted
from stepline.tools.workfiles.syntax_check import _Page, _Script
from stepline.tools.workfiles.unified_diff import apply_diff, is_diff, parse_diff, split_lines, unfence
from tests.repository.hard_text import Text

PIECE_CHARS = 64
TURN = "turn_20261121T090000_0f0f0f"
SOURCES = {1: Citation(sid=1, title="A page", url="https://example.org/")}


class Reader(NamedTuple):
    """A function, the modules whose expressions say what is hard for it, and texts that are hard besides."""

    read: Callable[[str], object]
    modules: tuple[str, ...] = ()
    texts: tuple[Text, ...] = ()


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]


def _log(text: str) -> None:
    error_lines(text)
    tracebacks(text)
    last_exception(text)


def _program(text: str) -> None:
    try:
        check_program(text, turn=TURN, present=())
    except ToolError:
        return


def _pdf(text: str) -> None:
    with suppress(ToolError):
        count_pages(f"%PDF-1.7 startxref {text}".encode())


def _cite(format_: str) -> Callable[[str], None]:
    def read(text: str) -> None:
        stream = CitationStream(SOURCES, format_)
        for piece in _pieces(text):
            stream.feed(piece)
        stream.close()

    return read


def _fields(text: str) -> None:
    stream = FieldStream(lambda _: None)
    for piece in _pieces(f'{{"a": "{text}'):
        stream.feed(piece)


def _channels(text: str) -> None:
    parser = ChannelParser()
    for piece in _pieces(text):
        parser.feed(piece)
    parser.close()


def _usage(text: str) -> None:
    usage = UsageFilter()
    for piece in _pieces(text):
        usage.feed(piece)


def _diff(text: str) -> None:
    looks_pasted(split_lines(text))
    is_diff(unfence(text))
    try:
        hunks = parse_diff(f"@@ -9,9 +9,9 @@\n{text}")
    except ToolError:
        return
    apply_diff(text, hunks)


def _script(text: str) -> None:
    for markup in (False, True):
        _Script(text, markup=markup).check()


def _line(text: str, *more: str) -> tuple[Text, ...]:
    return tuple(Text("", one, "") for one in (text, *more))


# Many tags, quotes, spans or brackets before each citation.
_DEEP = (
    f"\n<b>{'<a=' * 300}>{'[[S:1]]' * 300}",
    f"<a {'=' * 300}{'[[S:1]]' * 300}",
    f"<a {'<b x=' * 60}{'`<c y=`' * 40}{'[[S:1]]' * 300}",
    f"<p x={'`<c' * 100}{'[[S:1]]' * 300}",
    f"{'![' * 300}{'](' * 300}{'[[S:1]](' * 100}",
    f"{'[x]: ' * 100}{'[[S:1]]: ' * 100}",
    "".join(f"{'`' * count} " for count in range(1, 90)),
)

READERS = {
    "log": Reader(
        _log,
        ("stepline.programs.envelope",),
        _line("error", "0f", "e\n", "Traceback (most recent call last):\n", "aError: x\n"),
    ),
    "program": Reader(
        _program,
        ("stepline.programs.code", "stepline.programs.code"),
        (
            Text("fi:turn_a.files/x", f"'{TURN[:-1]}/files/a ' ", ""),
            Text("x = 'turn_a/files/b", " turn_a/files/", ""),
            *_line("'turn_a/files/b{c' ", f"'{'turn_a/files/' * 9}'\n", "turn_a/", "''''\"\"\"\"\\"),
        ),
    ),
    "markdown": Reader(
        _cite("markdown"),
        (
            "stepline.protocol.citation.citation_stream",
            "stepline.protocol.citation.prose",
            "stepline.protocol.parser.tags",
        ),
        _line(
            "<a[[S:1]]",
            "<a [[S:1]]",
            "<a =[[S:1]]",
            '<a ="[[S:1]]',
            "<a x='\">[[S:1]]",
            "`<=[[S:1]]",
            *_DEEP,
        ),
    ),
    "page": Reader(
        _cite("html"),
        ("stepline.protocol.citation.html", "stepline.protocol.citation.html"),
        _line('<a ="[[S:1]]', "<sup[[S:1]]", "<b =[[S:1]]", "<!-- [[S:1]]", "<code>[[S:1]]<sup>"),
    ),
    "pdf": Reader(
        _pdf,
        texts=_line(
            "/Type ", "/Type        /Page", "stream\n", "endstream ", " obj /ObjStm stream\n endstream "
        ),
    ),
    "cited": Reader(cited_sids, ("stepline.protocol.citation.token",), _line("[[S:1-9]]", "[[S:")),
    "object": Reader(
        repair,
        ("stepline.protocol.decision.json_repair", "stepline.protocol.decision.json_repair"),
        (
            *(
                Text(head, pump, end)
                for head in ('{"a": "', '{"a": ["', '{"a":', '{"a": {"b": [{"c": "')
                for pump in (
                    '"',
                    '" ',
                    '"}',
                    '",',
                    '", "',
                    '": "',
                    '"}]',
                    "\\",
                    '\\"',
                    '"\n',
                    '", "b": ',
                    '{"a": "',
                    '"},',
                    '"}```',
                    "1,",
                    "[",
                    "{",
                    "x" * 90 + '"  ',
                )
                for end in ("", '"}')
            ),
        ),
    ),
    "fields": Reader(_fields, ("stepline.protocol.parser.field",), _line('","', '":{"', "\\ud83d", '":["')),
    "channels": Reader(
        _channels,
        (
            "stepline.protocol.parser.grammar",
            "stepline.protocol.parser.tags",
            "stepline.protocol.parser.tags",
        ),
        (
            Text("<channel:code>", "\n<channel:thinking>", ""),
            Text("<channel:code>", "\n<channel:code>x</channel:thinking>", ""),
            Text("<thinking>", "<channel:code>", ""),
            Text("<channel:thinking>`", "</channel:thinking>`", ""),
            Text("<channel:ReactDecisionOutV2>", '"</channel:ReactDecisionOutV2>', ""),
            *_line("<channel:x>", "<channel:thinking>```\n", "<thinking></thinking>", "</channel:code>"),
        ),
    ),
    "usage": Reader(_usage, ("stepline.bundle.generation.shown_text",), _line("[[USAGE:1]]", "[[USAGE:")),
    "fence": Reader(
        strip_fence, ("stepline.bundle.generation.channel_result",), _line("```\n", "``` json\n")
    ),
    "ledger": Reader(
        split_text, ("stepline.context.summary_text",), _line("\n<calls>\n", "\n<calls>\n\n</calls>")
    ),
    "prompt": Reader(
        lambda text: (quote(text), inline(text)),
        ("stepline.rendering.quote", "stepline.model.traversal"),
    ),
    "diff": Reader(
        _diff,
        ("stepline.tools.workfiles.unified_diff", "stepline.tools.workfiles.patch"),
        _line(
            " a\n",
            "-a\n+b\n",
            "     1\ta\n",
            "@@ -1 +1 @@\n",
            "@@ -1 +1 @@\n-a\n",
            "--- a\n+++ b\n",
            "+++ ",
            "\n",
            "\\\n",
        ),
    ),
    "script": Reader(
        _script,
        ("stepline.tools.workfiles.syntax_check", "stepline.tools.workfiles.syntax_check"),
        _line(
            "(",
            "{",
            "'\\'",
            "'a\n",
            "\"'",
            "`${",
            "`${`}`",
            "/[",
            "=/[a]",
            "=/\\",
            "/*",
            "//:",
            "</",
            "'\\\n",
        ),
    ),
    "tags": Reader(
        lambda text: _Page(text).check(),
        ("stepline.tools.workfiles.syntax_check", "stepline.tools.workfiles.syntax_check"),
        _line("<a>", "</p>", "<p>", "<a ", "<a '", "<a x='>'>", "<!--", "<script>", "<p><b></b>", "<br>"),
    ),
    "plan": Reader(parse_acks, ("stepline.tools.plan",), _line("✓ 1. ", "✓ [1]\n")),
}
