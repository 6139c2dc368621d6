from collections.abc import Sequence
from pathlib import Path

import pytest

from stepline.protocol.parser.channel_parser import (
    ChannelClosed,
    ChannelEvent,
    ChannelOpened,
    ChannelParser,
    Text,
    Transcript,
    read_channels,
)

STREAMS = Path(__file__).parents[3] / "data" / "streams"
SIZES = (1, 2, 7, 13, 64, 10**9)

THINKING, DECISION, CODE, SUMMARY = "thinking", "ReactDecisionOutV2", "code", "summary"
EXIT = '{"action": "exit", "final_answer": "x"}'
FENCED_EXIT = f"\n```json\n{EXIT}\n```\n"


def load(name: str) -> str:
    return (STREAMS / f"{name}.txt").read_bytes().decode()


def run(pieces: Sequence[str], reason: str = "eof") -> tuple[ChannelParser, list[ChannelEvent]]:
    """Return the closed parser and its events, texts of one instance joined."""
    parser = ChannelParser()
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close(reason)
    joined: list[ChannelEvent] = []
    for event in events:
        if isinstance(event, Text) and joined and isinstance(last := joined[-1], Text):
            joined[-1] = Text(last.channel, last.instance, last.text + event.text)
        else:
            joined.append(event)
    return parser, joined


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def read(name: str) -> Transcript:
    return read_channels(load(name))


@pytest.mark.parametrize("path", sorted(STREAMS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_stream_reads_the_same_however_it_is_cut(path: Path) -> None:
    text = path.read_bytes().decode()
    expected_parser, expected = run([text])
    for size in SIZES:
        parser, events = run(cut(text, size))
        assert events == expected
        assert parser.transcript() == expected_parser.transcript()
        assert parser.slices == expected_parser.slices
        assert parser.raw == "".join(one.text for one in parser.slices) == text


BODIES: dict[str, dict[str, list[str]]] = {
    "interleaved": {
        THINKING: ["First.", "Second.", "Third."],
        DECISION: [f'\n```json\n{{"action": "call_tool", "n": {n}}}\n```\n' for n in (1, 2, 3)],
        CODE: ["print(1)\n"],
    },
    "code_with_stray_backtick": {
        THINKING: ["Run it.", "Done ` so."],
        CODE: ["\nprint('`')\n# <channel:summary> is only text here\n"],
    },
    "stray_closes": {THINKING: ["Hm."], DECISION: ['{"action": "exit", "final_answer": "a"}']},
    "fence_on_one_line": {THINKING: ["one"], DECISION: [f"```json {EXIT} ```"]},
    "fence_without_end": {THINKING: ["one"], DECISION: [f"\n```json\n{EXIT}\n"]},
    "prose_after_fence": {
        THINKING: ["one"],
        DECISION: [f"Here it is:\n```json\n{EXIT}\n```\nThat is all [1]."],
    },
    "unknown_channel": {THINKING: ["Go."], DECISION: [FENCED_EXIT]},
    "other_case": {THINKING: ["Go."], DECISION: [EXIT]},
    "stray_backtick_in_thinking": {
        THINKING: ["The ` char and a fence\n```\nnever closed"],
        DECISION: [FENCED_EXIT],
        CODE: [""],
    },
    "stray_backtick_before_close": {THINKING: ["The ` char"], DECISION: [FENCED_EXIT]},
    "quoted_own_close": {
        THINKING: ["Close with `</channel:thinking>` at last."],
        DECISION: [FENCED_EXIT],
    },
    "code_never_closed": {
        THINKING: ["Run.", "Then?"],
        DECISION: ['\n```json\n{"action": "call_tool"}\n```\n'],
        CODE: ['\nprint("<channel:thinking>")\nx = 1\n', "y = 2\n"],
        SUMMARY: ["Sum."],
    },
    "code_with_tag_at_line_start": {
        THINKING: ["Run.", "Done."],
        CODE: ['\ndoc = """\n<channel:thinking>\nx</channel:thinking>\n"""\n'],
    },
    "body_ends_in_bracket": {
        THINKING: ["list ["],
        DECISION: ['{"action": "exit", "final_answer": "see [[S:3"}'],
        SUMMARY: ["cut in [["],
    },
    "channel_literals_in_code": {
        THINKING: ["Run.", "Done."],
        CODE: [
            (
                '\na = "</channel"\nb = "</channel:"\nc = "<channel:thinking>"\nd = "</channel:thinking>"\n'
                'e = "</channel:co de>"\nf = 1 <c\n'
            )
        ],
    },
    "string_never_closed": {
        THINKING: ["one"],
        DECISION: ['{"action": "exit", "final_answer": "x}'],
        CODE: [""],
    },
    "tags_named_between_channels": {THINKING: ["Go."], DECISION: [EXIT], CODE: [""]},
    "legacy_thinking": {THINKING: ["Go."], DECISION: [FENCED_EXIT]},
    "legacy_thinking_never_closed": {THINKING: ["Go."], DECISION: [FENCED_EXIT]},
    "not_closed_before_the_next": {THINKING: ["Go.\n"], DECISION: [EXIT + "\n"], CODE: [""]},
}


def test_a_channel_within_a_bare_thinking_tag_is_ignored() -> None:
    parser = ChannelParser()
    assert parser.feed(f"<thinking>a <channel:{DECISION}>{EXIT}</channel:{DECISION}></thinking>") == []
    assert parser.feed(f"<channel:{THINKING}>Go.") == [ChannelOpened(THINKING, 0), Text(THINKING, 0, "Go.")]


@pytest.mark.parametrize("name", BODIES)
def test_every_body_is_what_the_model_wrote(name: str) -> None:
    transcript = read(name)
    bodies: dict[str, list[str]] = {}
    for one in transcript.instances:
        bodies.setdefault(one.channel, []).append(one.raw)
    assert bodies == BODIES[name]


def test_channels_of_a_round_close_as_soon_as_their_tag_is_read() -> None:
    text = load("interleaved")
    parser = ChannelParser()
    events = parser.feed(text)
    assert sum(isinstance(event, ChannelClosed) for event in events) == 7
    assert {event.reason for event in events if isinstance(event, ChannelClosed)} == {"normal"}
    assert parser.close() == []


def test_a_tag_in_a_string_of_an_answer_is_text() -> None:
    (body,) = read("channels_quoted_in_an_answer").bodies(DECISION)
    assert body.count("<channel:action>") == 2
    assert "and <channel:code>x</channel:code>." in body


def test_fences_in_strings_hide_no_tags() -> None:
    assert len(read("fences_in_strings").bodies(DECISION)) == 3


def test_joiners_and_direction_marks_stay_in_the_body() -> None:
    assert read("emoji_and_joiners").bodies(THINKING) == ("👩‍👩‍👧 می‌خواهم \u202aok\u202c",)


def test_a_close_in_an_open_span_is_marked_as_forced() -> None:
    (thinking,) = read("stray_backtick_before_close").of(THINKING)
    assert (thinking.forced_close, thinking.malformed, thinking.truncated) == (True, False, False)


def test_a_close_in_an_open_string_is_marked_as_malformed() -> None:
    (decision,) = read("string_never_closed").of(DECISION)
    assert (decision.malformed, decision.forced_close) == (True, False)


def test_a_closing_tag_in_an_unfinished_string_is_text() -> None:
    text = '<channel:action>{"final_answer": "</channel:action> ends it"}</channel:action>'
    assert read_channels(text).bodies(DECISION) == ('{"final_answer": "</channel:action> ends it"}',)


@pytest.mark.parametrize(
    ("prose", "opens"),
    [
        ("`<channel:code>`", False),
        ("`<channel:code>x</channel:code>`", False),
        (f"`<channel:code>{'x' * 200}`", False),
        (f"`<channel:code>{'x' * 201}`", True),
        ("`<channel:code>\n`", True),
        ("`<channel:code>", True),
        ("`a` <channel:code>`", True),
        ("```\n<channel:code>`\n```", True),
    ],
)
def test_a_tag_named_in_a_code_span_between_channels_opens_none(prose: str, opens: bool) -> None:
    text = f"<channel:thinking>a</channel:thinking>\n{prose}"
    expected = read_channels(text)
    assert bool(expected.of(CODE)) == opens
    for size in SIZES:
        parser, _ = run(cut(text, size))
        assert parser.transcript() == expected


def test_text_outside_of_channels_is_counted_without_blanks() -> None:
    transcript = read_channels(
        "Sure!\n\n<channel:thinking>a</channel:thinking>\n ok \n<channel:code></channel:code>"
    )
    assert (transcript.preamble, transcript.outside_chars) == ("Sure!", len("Sure!") + len("ok"))


def test_unknown_channels_and_missing_closes_are_reported() -> None:
    assert read("unknown_channel").unknown_channels == ("plan", "plan")
    assert read("unknown_channel").first_channel == "plan"
    assert read("not_closed_before_the_next").implicit_closes == 2


@pytest.mark.parametrize("reason", ["eof", "cancelled", "policy", "provider_error"])
def test_an_open_channel_is_closed_once_with_the_reason_at_the_end(reason: str) -> None:
    parser = ChannelParser()
    parser.feed("<channel:thinking>half a thought <chan")
    assert parser.close(reason) == [
        Text(THINKING, 0, "<chan"),
        ChannelClosed(THINKING, 0, reason, truncated=True),
    ]
    assert parser.close(reason) == []


def test_the_parser_holds_back_only_a_possible_tag() -> None:
    parser = ChannelParser()
    parser.feed("<channel:thinking>")
    assert parser.feed("a < b") == [Text(THINKING, 0, "a < b")]
    assert parser.feed("x <chan") == [Text(THINKING, 0, "x ")]
    assert parser.feed("ce") == [Text(THINKING, 0, "<chance")]
    assert parser.feed("</channel:thinkin") == []
    assert parser.feed("g>") == [ChannelClosed(THINKING, 0, "normal")]


def test_program_text_after_a_tag_at_a_line_start_is_held_back_until_certain() -> None:
    parser = ChannelParser()
    parser.feed("<channel:code>a\n")
    assert parser.feed("<channel:thinking>b") == []
    assert parser.feed("c</channel:code>") == [
        Text(CODE, 0, "<channel:thinking>bc"),
        ChannelClosed(CODE, 0, "normal"),
    ]


def test_an_alias_opens_and_closes_its_channel() -> None:
    parser = ChannelParser()
    assert parser.feed("<channel:action>{}</channel:REACTdecisionoutv2>") == [
        ChannelOpened(DECISION, 0),
        Text(DECISION, 0, "{}"),
        ChannelClosed(DECISION, 0, "normal"),
    ]


def test_a_name_too_long_for_a_tag_is_text() -> None:
    text = f"<channel:thinking>a<channel:{'x' * 49}>b</channel:thinking>"
    assert read_channels(text).bodies(THINKING) == (f"a<channel:{'x' * 49}>b",)


def test_an_empty_piece_produces_no_event() -> None:
    parser = ChannelParser()
    parser.feed("<channel:thinking>")
    assert parser.feed("") == []
