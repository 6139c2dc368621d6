"""Releases replace each other while turns run: no turn is stranded, repeated or changed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.deploy_storm import release_tree
from tests.contract.deploy_storm.course import draw_course
from tests.contract.deploy_storm.mixed_stage import Stage, open_stage
from tests.contract.deploy_storm.outcome import facts_of
from tests.contract.deploy_storm.release_tree import (
    NEXT,
    RELEASES,
    ReleaseMissingError,
    ReleaseTree,
    has_history,
    packages_of,
)
from tests.contract.deploy_storm.rollout import Return, Rollout
from tests.contract.deploy_storm.storm import Storm
from tests.contract.deploy_storm.trial import Report, play_seed
from tests.support.budget import budget

SEEDS = budget(8, 1_000, nightly=200)
MOTO_SEEDS = budget(2, 10)

pytestmark = pytest.mark.skipif(
    not has_history(), reason="neither a shallow clone nor a copy of the files has the releases"
)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with open_stage() as opened:
        yield opened


@pytest.fixture(scope="module")
def releases() -> list[ReleaseTree]:
    return [ReleaseTree(name) for name in (*RELEASES, NEXT)]


def test_turns_are_the_same_whichever_releases_run_their_steps(
    stage: Stage, releases: list[ReleaseTree]
) -> None:
    report = Report()
    for seed in range(SEEDS):
        play_seed(stage, releases, seed, report)
    assert report.problems == []
    assert len(report.pairs) == len(releases) ** 2


@pytest.mark.parametrize("seed", range(1, budget(7, 61), 2))
def test_a_fork_s_turn_outlives_a_return_to_a_release_that_does_not_read_it(
    stage: Stage, releases: list[ReleaseTree], seed: int
) -> None:
    """Nothing is written by a release that meets a later format, and the turn goes on when a later one is back."""
    course, (former, *_, later) = draw_course(seed, forks=True), releases
    alone = Storm(stage, course, Rollout("alone", [later], "")).play()
    rollout = Return(former, later)
    storm = Storm(stage, course, rollout, bounded=False)
    storm.begin()
    storm.run(until=lambda: storm.running_forks() != [])
    rollout.is_back = True
    storm.run()
    assert storm.played.refused > 0
    assert storm.open_turns() != []
    rollout.is_back = False
    storm.rejoin()
    storm.run()
    found, expected = facts_of(storm.end(), ordered=False), facts_of(alone, ordered=False)
    assert (found.ends, found.effects) == (expected.ends, expected.effects)
    assert {name: _without_takeover(thread) for name, thread in found.thread.items()} == expected.thread


def _without_takeover(thread: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [block for block in thread if ".takeover_" not in block[0]]


def renaming(old: bytes, new: bytes) -> Callable[[], None]:
    """Return a change of a release: it stores `old` as `new`, which it alone reads."""

    def rename() -> None:
        log: Any = importlib.import_module("stepline.adapters.aws.log")
        encode, decode = log.encode_batch, log.decode_batch
        log.encode_batch = lambda batch: encode(batch).replace(old, new)
        log.decode_batch = lambda body: decode(bytes(body).replace(new, old))

    return rename


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        pytest.param(b'"answer":', b'"reply":', "mixed: changed", id="a field that has a default"),
        pytest.param(
            b'"kind":"result"', b'"kind":"outcome"', "Invalid value 'outcome'", id="a kind of entry"
        ),
    ],
)
def test_a_release_that_renames_stored_names_is_found(
    stage: Stage, releases: list[ReleaseTree], old: bytes, new: bytes, problem: str
) -> None:
    report = Report()
    later = ReleaseTree(NEXT, "later", renaming(old, new))
    for seed in range(2):
        play_seed(stage, [releases[-1], later], seed, report)
    assert any(problem in line for line in report.problems), report.problems


def test_the_shared_table_and_bucket_answer_as_moto_does(stage: Stage) -> None:
    def play(opened: Stage, seed: int) -> object:
        course, alone = draw_course(seed, forks=True), Rollout("alone", [ReleaseTree(NEXT)], "")
        return facts_of(Storm(opened, course, alone).play())

    with open_stage(over_moto=True) as over_moto:
        for seed in range(MOTO_SEEDS):
            assert play(over_moto, seed) == play(stage, seed)


def test_a_clone_that_lacks_a_release_is_refused_with_the_command_that_fetches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(release_tree.RELEASES, "0.0.9", "0" * 40)
    with pytest.raises(ReleaseMissingError, match=r"lacks commit 0{40}, release 0\.0\.9: fetch it with"):
        packages_of("0.0.9")
