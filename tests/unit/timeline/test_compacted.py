"""The pieces of a timeline after a compaction."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.model.entry import Compacted, Inbound
from stepline.model.plan_steps import Plan
from stepline.model.usage import Usage
from stepline.rendering.piece import Kind, Piece, byte_length, text_bytes
from stepline.rendering.pieces_of_entry import Writer
from stepline.rendering.text_form import STANDARD
from stepline.rendering.turn_facts import Turn, event_place
from stepline.timeline.compacted import (
    CARRIED_BYTES,
    CARRIED_MAX,
    PIECE_BYTES,
    PLANS_BYTES,
    Compactions,
    compact,
    fit_room,
    newest_of_each,
    share,
)

AT = "2026-11-22T10:00:00.000Z"
TURNS = [Turn(id=f"turn_{n}", started_at=AT, opened=n * 10, prompts=(n * 10,)) for n in range(1, 4)]


def entry(**fields: object) -> Compacted:
    given: dict[str, object] = {
        "id": "turn_3:40",
        "turn": "turn_3",
        "at": AT,
        "scope": "history",
        "status": "completed",
        "trigger": "forced",
        "before_tokens": 9,
        "max_tokens": 8,
    }
    return Compacted(**{**given, **fields})  # type: ignore[arg-type]  # a test names fields


def piece(kind: Kind, n: int, turn: int, text: str = "", path: str = "") -> Piece:
    where = path or f"ar:turn_{turn}.{kind}.{n}"
    return Piece(kind=kind, n=n, turn=turn, text=text or f"[{kind} {n}]\n", path=where, hint="words")


def pieces_of_log() -> list[Piece]:
    """Return three turns, the last one open."""
    found = []
    for turn in (1, 2, 3):
        start = turn * 10
        found += [piece("header", start, turn), piece("prompt", start, turn)]
        for n in range(start + 1, start + 5):
            found += [
                piece("round", n, turn),
                piece("call", n, turn),
                piece("result", n, turn),
                piece("end", n, turn),
            ]
        found += [piece("event", start + 5, turn), piece("note", start + 6, turn)]
    return found


def compacted(pieces: list[Piece], **fields: object) -> list[Piece]:
    made = entry(**fields)
    first = next((i for i, turn in enumerate(TURNS, 1) if turn.opened == made.cut), 0)
    return compact(pieces, 40, made, first_kept=first, turns=TURNS, plans=(), form=STANDARD)


def test_turns_before_the_cut_become_one_memory_that_carries_their_events_and_notes() -> None:
    kept = compacted(pieces_of_log(), cut=30, summary="They talked.")
    kinds = [piece.kind for piece in kept[:6]]
    assert kinds == ["memory", "event", "note", "event", "note", "header"]
    assert "They talked." in kept[0].text
    assert kept[0].path == "su:turn_3.conv.range.summary"
    assert {piece.turn for piece in kept[:5]} == {0}
    assert [piece.text for piece in kept[5:]] == [piece.text for piece in pieces_of_log() if piece.turn == 3]


def test_pieces_kept_by_a_compaction_are_the_same_objects() -> None:
    pieces = pieces_of_log()
    kept = compacted(pieces, cut=30, summary="They talked.")
    assert all(one is other for one, other in zip(kept[5:], pieces[-len(kept[5:]) :], strict=True))


def test_a_second_memory_replaces_the_first_and_keeps_carried_pieces() -> None:
    once = compacted(pieces_of_log(), cut=20, summary="First.")
    twice = compacted(once, cut=30, summary="Second.")
    assert [piece.kind for piece in twice].count("memory") == 1
    assert "Second." in twice[0].text
    carried = [piece for piece in twice if piece.turn == 0 and piece.kind in ("event", "note")]
    assert [piece.path for piece in carried] == [
        piece.path for piece in pieces_of_log() if piece.turn < 3 and piece.kind in ("event", "note")
    ]
    assert carried[0] is next(piece for piece in once if piece.path == carried[0].path)


def test_carried_pieces_are_bounded_in_number_and_length() -> None:
    long = [piece("event", n, 1, "x" * 9_000 + "\n") for n in range(1, 90)]
    kept = compacted([*long, *pieces_of_log()[-6:]], cut=30, summary="s")
    carried = [piece for piece in kept if piece.turn == 0 and piece.kind == "event"]
    assert [piece.n for piece in carried] == list(range(90 - CARRIED_MAX, 90))
    assert all(byte_length(piece.text) <= CARRIED_BYTES for piece in carried)
    assert all(piece.path in piece.text for piece in carried)
    assert not any(piece.shows for piece in carried)


def test_a_split_leaves_the_opening_and_the_newest_rounds() -> None:
    kept = compacted(pieces_of_log(), split=33, checkpoint="Two rounds.")
    own = [piece for piece in kept if piece.turn == 3]
    assert [piece.kind for piece in own[:4]] == ["header", "prompt", "checkpoint", "round"]
    assert {piece.n for piece in own if piece.kind == "round"} == {34}
    assert {piece.kind for piece in own} >= {"event", "note"}
    assert own[2].path == "ar:turn_3.react.mid_turn.compaction.40"


def test_a_split_of_nothing_leaves_no_checkpoint() -> None:
    assert compacted(pieces_of_log(), split=30, checkpoint="Nothing.") == pieces_of_log()


def test_the_same_compaction_twice_is_the_same_as_once() -> None:
    once = compacted(pieces_of_log(), cut=30, summary="s", split=33, checkpoint="c")
    assert compacted(once, cut=30, summary="s", split=33, checkpoint="c") == once


@given(st.lists(st.integers(0, 5_000), max_size=40), st.integers(0, 50_000))
def test_shares_fill_the_room_and_never_more(sizes: list[int], room: int) -> None:
    limit = share(sizes, room)
    assert sum(min(size, limit) for size in sizes) <= room or limit == 0
    if any(size > limit for size in sizes):
        assert sum(min(size, limit + 1) for size in sizes) > room


kinds = st.sampled_from(["prompt", "event", "note", "round", "result", "header", "plans"])
some_pieces = st.lists(
    st.builds(
        lambda kind, size, turn, word: piece(kind, 1, turn, "head\n" + word * size + "\n"),
        kinds,
        st.sampled_from([0, 5, 300, 4_000, 90_000]),
        st.sampled_from([0, 3]),
        st.sampled_from(["x", "水"]),
    ),
    max_size=30,
)


@given(some_pieces, st.integers(0, 60_000), st.booleans())
def test_kept_pieces_fit_into_their_room(pieces: list[Piece], room: int, keeps_events: bool) -> None:
    pieces = [replace(piece, path=f"ar:{index}") for index, piece in enumerate(pieces)]
    kept = fit_room(pieces, room, STANDARD, keeps_events=keeps_events)
    loose = [piece for piece in kept if piece.kind != "header"]
    fixed = sum(1 for piece in loose if piece.turn and piece.kind not in ("event", "note"))
    assert text_bytes(loose) <= max(room, fixed * PIECE_BYTES)
    assert [piece.path for piece in kept] == [
        piece.path for piece in pieces if piece.path in {one.path for one in kept}
    ]
    assert fit_room(kept, room, STANDARD, keeps_events=keeps_events) == kept


def test_messages_and_events_of_the_open_turn_are_left_out_last() -> None:
    long = "head\n" + "x" * 400 + "\n"
    pieces = [
        replace(piece(kind, n, turn, long), path=f"ar:{kind}.{n}.{turn}")  # type: ignore[arg-type]
        for n, (kind, turn) in enumerate(
            [
                ("event", 0),
                ("event", 2),
                ("prompt", 2),
                ("prompt", 3),
                ("event", 3),
                ("note", 3),
                ("event", 3),
                ("result", 3),
            ]
        )
    ]
    order = ["ar:event.0.0", "ar:event.1.2", "ar:note.5.3", "ar:prompt.2.2", "ar:event.4.3", "ar:event.6.3"]
    for count in range(len(order) + 1):
        kept = {one.path for one in fit_room(pieces, (8 - count) * PIECE_BYTES, STANDARD)}
        assert {one.path for one in pieces} - kept == set(order[:count])


def test_an_entry_of_an_earlier_release_drops_the_same_pieces_as_before() -> None:
    pieces = [piece("event", n, 3, f"[path: ar:{n}]\n  wait\n") for n in range(9)] + [piece("result", 9, 3)]
    assert [one.n for one in compacted(pieces, room=4 * PIECE_BYTES)] == [6, 7, 8, 9]
    assert compacted(pieces, room=4 * PIECE_BYTES, keeps_events=True) == pieces


def test_a_stop_is_not_carried_and_every_other_event_is_even_one_that_says_nothing_but_its_kind() -> None:
    said = Inbound(message_id="m1", event="alert", text="", user="ada", at=AT)
    events = (replace(said, event="steer", reactive=False), replace(said, event="steer", text="brief"), said)
    writer = Writer(STANDARD, "turn_1", 1)
    pieces = [writer.event(n, event, event_place("turn_1", event)) for n, event in enumerate(events)]
    assert [kept.hint for kept in newest_of_each(pieces, 9)] == ["brief", "alert"]


def test_the_newest_of_each_kind_are_carried() -> None:
    pieces = [piece("event", n, 1) for n in range(5)] + [piece("note", n, 1) for n in range(5)]
    assert [found.n for found in newest_of_each(pieces, 2)] == [3, 4, 3, 4]


def test_the_compaction_state_follows_its_entries() -> None:
    state = Compactions().ended(entry(cut=30, summary="s")).ended(entry(split=33, checkpoint="c"))
    assert state.memory is not None
    assert state.checkpoint is not None
    assert state.turned().checkpoint is None
    assert state.turned().memory is state.memory
    assert state.ended(entry(status="skipped", reason="no")).memory is state.memory
    paid = Usage(input_tokens=9)
    assert [
        state.ended(entry(reason=reason, usage=paid)).wasted for reason in ("", "too_long", "steered")
    ] == [*(False, True, False)]


def test_plans_of_compacted_turns_are_listed_and_cut_to_their_limit() -> None:
    plans = [
        Plan(
            plan_id=f"plan:turn_1:{n}",
            steps=("read " * 400, "write"),
            status={"1": "done", "2": "pending"},
            created_ts=AT,
            last_ts=AT,
            origin_turn_id="turn_1",
            last_turn_id="turn_1",
            closed_ts=AT,
        )
        for n in range(40)
    ]
    made = entry(cut=30, summary="s")
    kept = compact(pieces_of_log(), 40, made, first_kept=3, turns=TURNS, plans=plans, form=STANDARD)
    (plans_piece,) = [piece for piece in kept if piece.kind == "plans"]
    assert "plan:turn_1:39" in plans_piece.text
    assert byte_length(plans_piece.text) <= PLANS_BYTES
