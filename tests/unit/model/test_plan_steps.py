import pytest

from stepline.model.plan_steps import STEP_MARKS, Plan


def plan(*status: str, **fields: str) -> Plan:
    return Plan(
        plan_id="plan:t:0",
        steps=tuple(f"step {i}" for i in range(len(status))),
        status={str(i + 1): word for i, word in enumerate(status) if word},
        created_ts="t0",
        last_ts="t0",
        origin_turn_id="turn_1",
        last_turn_id="turn_1",
        **fields,
    )


@pytest.mark.parametrize(
    ("status", "complete"),
    [
        (("done", "done"), True),
        (("done", "failed"), True),
        (("done", "in_progress"), False),
        (("done", "pending"), False),
        (("done", ""), False),
        (("", ""), False),
    ],
)
def test_a_plan_is_complete_when_every_step_is_done_or_failed(
    status: tuple[str, ...], complete: bool
) -> None:
    assert plan(*status).is_complete() is complete
    assert plan(*status).is_open() is not complete


@pytest.mark.parametrize("ended", ["closed_ts", "superseded_ts"])
def test_a_plan_that_was_ended_asks_for_no_work(ended: str) -> None:
    found = plan("pending", **{ended: "t1"})
    assert (found.is_open(), found.is_complete()) == (False, False)


def test_every_step_status_has_a_unique_mark() -> None:
    assert len(set(STEP_MARKS.values())) == len(STEP_MARKS) == 4
