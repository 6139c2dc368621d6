"""Streams that are cut, misspelt or never closed: what is certain is handed out at once, and nothing is lost."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.protocol.parser.channel_parser import (
    ChannelClosed,
    ChannelOpened,
    ChannelParser,
    Text,
    read_channels,
)
from stepline.protocol.parser.grammar import ChannelSpec

SIZES = (1, 2, 7, 13, 64, 10**9)
STREAMS = Path(__file__).parents[3] / "data" / "streams"
DECISION = "ReactDecisionOutV2"
DECIDED = '<channel:ReactDecisionOutV2>{"action": "exit"}</channel:ReactDecisionOutV2>'
CUT_TAG = re.compile(
    r"<[ \t]*(/[ \t]*)?(c(h(a(n(n(e(l[ \t]*(:[ \t]*([\w-]+[ \t]*)?)?)?)?)?)?)?)?)?", re.IGNORECASE
)


def live(text, size, channels=None):
    """Return what is handed out before the stream ends, and the transcript."""
    parser = ChannelParser(channels) if channels else ChannelParser()
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    parser.close()
    return events, parser.transcript()


def texts(events):
    joined = {}
    for event in events:
        if isinstance(event, Text):
            key = (event.channel, event.instance)
            joined[key] = joined.get(key, "") + event.text
    return joined


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "before",
    [
        "<channel:plan>a plan</channel:plan>",
        "<channel:plan>never closed",
        "<channel:Thinking>Go.</CHANNEL:thinking>",
        "< channel:thinking >Go.</channel:thinking>",
    ],
)
def test_an_unknown_or_misspelt_channel_does_not_stop_the_stream(before, size):
    events, transcript = live(f"{before}\n{DECIDED}", size)
    assert ChannelOpened(DECISION, 0) in events
    assert ChannelClosed(DECISION, 0, "normal") in events
    assert texts(events)[DECISION, 0] == transcript.bodies(DECISION)[0] == '{"action": "exit"}'


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        ("<channel:thinking>The ` char.</channel:thinking>", ["The ` char."]),
        ("<channel:thinking>The ` char</channel:thinking>", ["The ` char"]),
        ("<channel:thinking>A fence\n```\nopen</channel:thinking>", ["A fence\n```\nopen"]),
        ("<channel:thinking>``a` b</channel:thinking>", ["``a` b"]),
    ],
)
def test_a_stray_backtick_hides_no_later_tag(text, bodies, size):
    events, transcript = live(text + DECIDED, size)
    assert list(transcript.bodies("thinking")) == bodies
    assert ChannelClosed(DECISION, 0, "normal") in events


@pytest.mark.parametrize("size", SIZES)
def test_a_fence_that_a_decision_forgets_to_close_hides_no_code(size):
    text = '<channel:action>\n```json\n{"action": "exit"}\n</channel:action><channel:code>x\n</channel:code>'
    events, transcript = live(text, size)
    assert transcript.bodies("code") == ("x\n",)
    assert transcript.bodies(DECISION) == ('\n```json\n{"action": "exit"}\n',)
    assert ChannelClosed("code", 0, "normal") in events


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tail", ["list [", "see [[S:3", "[[", "<", "</channel:thin", "\\", "`"])
def test_a_body_keeps_its_tail(tail, size):
    closed, _ = live(f"<channel:thinking>{tail}</channel:thinking>", size)
    assert texts(closed) == {("thinking", 0): tail}
    assert read_channels(f"<channel:thinking>{tail}").bodies("thinking") == (tail,)


@given(
    text=st.text(
        alphabet="\u200b\u200c\u200d\u202a\u2066\ufeff\u00ad👩é<>[]\u2013\u2014\uff1a\uff3b \r\n\x00",
        max_size=40,
    )
)
def test_a_body_is_what_the_model_wrote(text):
    body = "x" + text + "x"
    for channel in ("thinking", "code", "action"):
        transcript = read_channels(f"<channel:{channel}>{body}</channel:{channel}>")
        assert [one.raw for one in transcript.instances] == [body]


PLAIN = st.sampled_from(
    [
        *("<channel:thinking>", "</channel:thinking>", "<channel:summary>", "</channel:summary>", "<"),
        *("</", "<chan", "</channel:", "< /  channel : thin", "x < 1", "[[S:1", "word ", "\n", ">", "/", ":"),
    ]
)


@given(pieces=st.lists(PLAIN, max_size=20))
def test_only_the_beginning_of_a_tag_is_held_back(pieces):
    parser = ChannelParser()
    handed_out, fed = [], ""
    for char in "<channel:thinking>" + "".join(pieces):
        handed_out += parser.feed(char)
        fed += char
        known = "".join(one.raw for one in read_channels(fed).instances)
        held = known.removeprefix("".join(texts(handed_out).values()))
        assert held == "" or CUT_TAG.fullmatch(held)


# Whether these texts belong to a channel is known only when another tag came, or never does.
UNDECIDED = {
    "code_never_closed",
    "code_with_tag_at_line_start",
    "legacy_thinking",
    "legacy_thinking_never_closed",
    "tags_named_between_channels",
}


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(STREAMS.glob("*.txt")) if path.stem not in UNDECIDED],
    ids=lambda path: path.stem,
)
def test_a_recorded_stream_is_handed_out_to_its_last_character_before_each_tag(path):
    text = path.read_bytes().decode()
    parser, handed_out = ChannelParser(), []
    for at, char in enumerate(text):
        handed_out += parser.feed(char)
        held = "".join(one.raw for one in read_channels(text[: at + 1]).instances).removeprefix(
            "".join(texts(handed_out).values())
        )
        # the beginning of a tag, or a whole one where what follows it decides
        assert held == "" or held.startswith("<")


class Counting:
    """Hears what a scanner reads."""

    def __init__(self, scanner):
        self.scanner = scanner
        self.chars = 0

    def read(self, text):
        self.chars += len(text)
        return self.scanner.read(text)


@pytest.mark.parametrize(
    ("channel", "mention"),
    [
        ("thinking", "a `<channel:action>` b `</channel:thinking>` "),
        ("thinking", "```\n<channel:action></channel:thinking>x\n```\n"),
        ("action", '"<channel:code>", "</channel:action>x", '),
        ("code", "x = '</channel:thinking>'\n"),
    ],
)
def test_mentions_of_tags_are_read_in_linear_time(channel, mention):
    text = mention * 2_000
    parser = ChannelParser()
    parser.feed(f"<channel:{channel}>")
    counting = parser._body.scanner = Counting(parser._body.scanner)
    for at in range(0, len(text), 8):
        parser.feed(text[at : at + 8])
    parser.feed(f"\n</channel:{channel}>")
    assert parser.transcript().instances[0].raw == text + "\n"
    assert len(text) * 0.9 < counting.chars <= len(text) + 1


def test_a_channels_format_or_its_escape_decides_where_a_tag_is_text():
    escapes = {kind: ChannelSpec("x", kind).escaping for kind in ("markdown", "text", "html")}
    assert set(escapes.values()) == {"markdown"}
    assert ChannelSpec("x", "json").escaping == "json"
    assert {ChannelSpec("x", kind).escaping for kind in ("yaml", "xml", "mermaid")} == {"none"}
    assert ChannelSpec("x", "text", escape="none").escaping == "none"
