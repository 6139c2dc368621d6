import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.protocol.decision.shape import PrefixGuard, check_prefix
from stepline.protocol.parser.channel_parser import read_channels
from tests.unit.protocol.decision.read_generation import codes, complete, decide, generation, judge, think

PREAMBLE = "decision_preamble_before_first_channel"
NOT_THINKING = "decision_first_channel_not_thinking"


def fed(text: str, size: int) -> tuple[str, int]:
    """Feed a text in pieces; return the violation, and how many characters it took to know."""
    guard = PrefixGuard()
    for at in range(0, len(text), size):
        if violation := guard.feed(text[at : at + size]):
            return violation, at + size
    return "", len(text)


@pytest.mark.parametrize("size", [1, 2, 7, 13, 10_000])
@pytest.mark.parametrize(
    ("text", "violation"),
    [
        ("", ""),
        (" \n\t", ""),
        (think(), ""),
        (" \n" * 500 + think(), ""),
        ("<CHANNEL:Thinking>x", ""),
        ("< channel : thinking >x", ""),
        ("<channel:thinking>Sure! <channel:oops>", ""),
        ("<chan", ""),
        ("<channel:thinkin", ""),
        ("Sure! " + think(), PREAMBLE),
        ("<thinking>Hm.</thinking>" + think(), PREAMBLE),
        ("</channel:thinking>" + think(), PREAMBLE),
        ("<br>" + think(), PREAMBLE),
        ("<channel:thinking x>", PREAMBLE),
        ("```\n" + think(), PREAMBLE),
        (decide(complete()), NOT_THINKING),
        ("\n<channel:thinkings>x", NOT_THINKING),
        ("<channel:plan>x</channel:plan>" + think(), NOT_THINKING),
        ("<channel:" + "x" * 49 + ">", PREAMBLE),
    ],
)
def test_a_generation_begins_with_its_thinking_however_it_is_cut(
    text: str, violation: str, size: int
) -> None:
    assert fed(text, size)[0] == violation
    assert check_prefix(text) == violation


def test_a_violation_is_known_as_soon_as_it_is_certain_and_stays() -> None:
    assert fed("  I will " + think(), 1) == (PREAMBLE, 3)
    assert fed("<channel:code>x", 1) == (NOT_THINKING, len("<channel:code>"))
    guard = PrefixGuard()
    guard.feed("x")
    assert guard.feed(think()) == guard.violation == PREAMBLE


def test_the_guard_keeps_no_text_after_the_first_tag() -> None:
    class Piece(str):
        __slots__ = ()

        def __getitem__(self, key: object) -> str:
            raise AssertionError("looked at")

    guard = PrefixGuard()
    guard.feed(think())
    assert guard.feed(Piece("text" * 1000)) == ""


@given(st.text("<>/ chanelticokd:x\n", max_size=40), st.integers(1, 9))
def test_guard_and_judge_agree_however_the_stream_was_cut(head: str, size: int) -> None:
    text = head + generation(complete())
    violation = fed(text, size)[0]
    assert violation == check_prefix(text)
    assert bool(violation) == (
        codes(judge(text))[:1] in ([PREAMBLE], [NOT_THINKING]) and not judge(text).accepted
    )


def test_a_violation_is_reported_with_its_facts() -> None:
    (notice,) = judge("Sure, " + generation(complete())).notices
    assert notice.extra == {"preamble_chars": 5, "preamble_preview": "Sure,", "first_channel": "thinking"}
    (notice,) = judge("\n" + decide(complete())).notices
    assert notice.extra == {"first_channel": "ReactDecisionOutV2", "offset": 1}


def test_a_leading_word_costs_nothing_where_it_is_tolerated() -> None:
    verdict = judge("Sure! " + generation(complete()), strict=False)
    assert (verdict.accepted, codes(verdict)) == (True, [PREAMBLE])


def test_the_guard_accepts_every_first_tag_that_the_parser_accepts() -> None:
    for text in ("<channel:thinking>", "< channel:thinking>", "<\tchannel:\tTHINKING  >"):
        assert check_prefix(text) == ""
        assert read_channels(text + "x").first_channel == "thinking"
