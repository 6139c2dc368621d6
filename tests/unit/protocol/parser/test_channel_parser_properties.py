import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.protocol.parser.channel_parser import (
    ChannelClosed,
    ChannelEvent,
    ChannelOpened,
    ChannelParser,
    Text,
)
from stepline.protocol.parser.grammar import OUTER_TAG, TAG
from tests.support.budget import budget

PARTS = st.sampled_from(
    [
        *(
            "`",
            "``",
            "```",
            "\n```json\n",
            "\n```\n",
            "\n~~~\n",
            "~~~",
            "\n",
            " ",
            "    ",
            '"',
            "\\",
            '\\"',
            "\\\\",
        ),
        *("<", "</", "<chan", "</channel", "</channel:", "<channel:", "channel:code>", ">", "< ", "/"),
        *("<channel:thinking>", "</channel:thinking>", "<channel:action>", "</channel:action>"),
        *(
            "\n<channel:thinking>",
            "\n<channel:code>",
            "<CHANNEL:Code>",
            "</ channel:code >",
            "< / channel : code>",
        ),
        *("<channel:code>", "</channel:code>", "<channel:summary>", "</channel:summary>"),
        *("<channel:plan>", "</channel:plan>", "</channel:co de>", "<thinking>", "</thinking>", "<think"),
        *('{"a": "', '"}', "{", "}", "[", "[[S:3", "\\ud83d", "é", "👩‍👩‍👧", "\u200c", "word", "x < 1"),
    ]
)
TEXTS = st.lists(PARTS | st.text(max_size=3), max_size=25).map("".join)
CUTS = st.lists(st.integers(min_value=0, max_value=200), max_size=40)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted({cut for cut in cuts if cut < len(text)}), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def run(pieces: list[str]) -> tuple[ChannelParser, list[ChannelEvent]]:
    parser = ChannelParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return parser, events + parser.close()


def joined(events: list[ChannelEvent]) -> list[ChannelEvent]:
    out: list[ChannelEvent] = []
    for event in events:
        if isinstance(event, Text) and out and isinstance(last := out[-1], Text):
            out[-1] = Text(last.channel, last.instance, last.text + event.text)
        else:
            out.append(event)
    return out


@settings(max_examples=budget(50, 5000))
@given(text=TEXTS, cuts=CUTS)
def test_a_stream_cut_anywhere_gives_the_same_events(text: str, cuts: list[int]) -> None:
    whole, expected = run([text])
    for pieces in (pieces_of(text, cuts), list(text)):
        parser, events = run(pieces)
        assert joined(events) == joined(expected)
        assert parser.transcript() == whole.transcript()
        assert parser.slices == whole.slices


@settings(max_examples=budget(50, 5000))
@given(text=TEXTS, cuts=CUTS)
def test_the_parser_loses_and_adds_no_character(text: str, cuts: list[int]) -> None:
    parser, events = run(pieces_of(text, cuts))
    assert "".join(one.text for one in parser.slices) == parser.raw == text
    streamed: dict[tuple[str, int], str] = {}
    for event in events:
        if isinstance(event, Text):
            key = (event.channel, event.instance)
            streamed[key] = streamed.get(key, "") + event.text
    for one in parser.transcript().instances:
        sliced = "".join(
            part.text
            for part in parser.slices
            if part.kind == "body" and (part.channel, part.instance) == (one.channel, one.instance)
        )
        assert one.raw == sliced == streamed.get((one.channel, one.instance), "")


@given(text=TEXTS, cuts=CUTS)
def test_channels_open_and_close_in_turn(text: str, cuts: list[int]) -> None:
    _, events = run(pieces_of(text, cuts))
    opened: tuple[str, int] | None = None
    counts: dict[str, int] = {}
    for event in events:
        here = (event.channel, event.instance)
        match event:
            case ChannelOpened():
                assert opened is None
                assert event.instance == counts.get(event.channel, 0)
                counts[event.channel] = event.instance + 1
                opened = here
            case Text():
                assert opened == here
                assert event.text
            case ChannelClosed():
                assert opened == here
                opened = None
    assert opened is None


FENCED = st.sampled_from(
    [
        *(
            "<channel:action>",
            "</channel:action>",
            "\n<channel:code>",
            "</channel:code>",
            "<channel:thinking>",
        ),
        *(
            "<channel:plan>",
            "</channel:plan>",
            "<thinking>",
            "</thinking>",
            "<chan",
            "[[S:1]]",
            '"',
            "word",
            "\n",
        ),
        *("`", "``", "~", "~~"),
    ]
)


@given(
    mark=st.sampled_from(["```", "````", "~~~", "~~~~~"]),
    info=st.sampled_from(["", "xml", " html"]),
    inner=st.lists(FENCED, max_size=12)
    .map("".join)
    .filter(lambda text: "```" not in text and "~~~" not in text),
    cuts=CUTS,
)
def test_a_fence_of_backticks_or_tildes_protects_the_tags_in_it(
    mark: str, info: str, inner: str, cuts: list[int]
) -> None:
    body = f"See:\n{mark}{info}\n{inner}\n{mark}\nDone."
    parser, _ = run(pieces_of(f"<channel:thinking>{body}</channel:thinking>", cuts))
    assert [(one.channel, one.raw) for one in parser.transcript().instances] == [("thinking", body)]


BLANKS = st.text(alphabet=" \t", max_size=4)
TAGS = st.builds(
    lambda a, b, c, d, e, slash, name: f"<{a}{slash}{b if slash else ''}channel{c}:{d}{name}{e}>",
    *[BLANKS] * 5,
    st.sampled_from(["", "/"]),
    st.from_regex(r"[A-Za-z0-9_-]{1,48}", fullmatch=True),
)


@given(tag=TAGS)
def test_a_tag_cut_anywhere_is_still_a_tag(tag: str) -> None:
    for pattern in (TAG, OUTER_TAG):
        whole = pattern.search(f"a < b{tag}")
        assert whole is not None
        assert whole[0] == tag
        for size in range(1, len(tag)):
            beginning = pattern.search(f"a < b{tag[:size]}")
            assert beginning is not None
            assert (beginning[0], beginning["name"]) == (tag[:size], None)


@given(text=st.text(alphabet="<>/ channel:x", max_size=30))
def test_only_a_tag_or_the_beginning_of_one_is_found(text: str) -> None:
    found = TAG.search(text)
    if found and found["name"] is None:
        assert found.end() == len(text)
        assert re.fullmatch(r"<[ \t]*/?[ \tchanel:x]*", found[0])
