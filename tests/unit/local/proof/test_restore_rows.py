"""Restores: a copy with other turns or blocks fails, and so does a stage of which only a part can be restored."""

import pytest
from msgspec.structs import replace

from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.proved_stage import NotRunError
from stepline.local.proof.row.restore_rows import judge_copied, judge_recovery
from stepline.timeline.export import TURN_LOG, Export


def turn(name, *blocks):
    return Export(kind=TURN_LOG, tags=(), text="", payload={"turn_id": name, "blocks": list(blocks)})


def block(text, key="out/a", sha256="5e"):
    return {"path": "fi:x", "text": text, "body": {"key": key, "sha256": sha256}}


ONE, TWO = turn("t1", block("one"), block("two")), turn("t2", block("three"))
TIMELINE = replace(ONE, kind="artifact:conv.timeline.v1", payload={})


def test_a_copy_differs_in_the_keys_of_its_bodies_alone():
    copied = turn("t1", block("one", key="att/b"), block("two", key="att/c"))
    assert judge_copied([TIMELINE, ONE, TWO], [copied, TWO]) == 3


@pytest.mark.parametrize(
    "after",
    [
        [ONE],
        [TWO, ONE],
        [ONE, TWO, turn("t3")],
        [turn("t1", block("one")), TWO],
        [turn("t1", block("one"), block("zwei")), TWO],
        [turn("t1", block("one"), block("two", sha256="6f")), TWO],
    ],
    ids=["a turn is lost", "order", "another turn", "a block is lost", "another text", "another file"],
)
def test_a_copy_that_differs_fails(after):
    with pytest.raises(NotHeldError):
        judge_copied([ONE, TWO], after)


def test_an_export_without_turns_fails():
    with pytest.raises(NotHeldError):
        judge_copied([TIMELINE], [TIMELINE])


def test_recovery_of_both_is_held_of_one_fails_and_of_none_proves_nothing():
    judge_recovery({"table": "ENABLED", "bucket": "Enabled"})
    for kept in ({"table": "ENABLED", "bucket": "Suspended"}, {"table": "DISABLED", "bucket": "Enabled"}):
        with pytest.raises(NotHeldError):
            judge_recovery(kept)
    with pytest.raises(NotRunError):
        judge_recovery({"table": "DISABLED", "bucket": "DISABLED"})
