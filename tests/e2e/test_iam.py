"""The way of a message under enforced roles: it works with what they allow, and not with one grant less."""

from __future__ import annotations

import os
import random
import shutil
from fnmatch import fnmatchcase

import pytest

from stepline.local.stage import lifecycle
from stepline.local.stage.deployed import HOME, make_home
from stepline.local.stage.program_environment import MODE_VARIABLE, process_backend
from tests.e2e.enforced import Scene
from tests.e2e.grant import read_grants, without
from tests.e2e.strict_client import BrokenTurnError
from tests.support.budget import budget

pytestmark = pytest.mark.enforced

SEED_VARIABLE = "STEPLINE_TEST_GRANT_SEED"
TAKEN = budget(5, 100)
SETTINGS = {"AUTH": "true", "SFN_WAIT_SCALE": "0"}
"""Retries of the state machine come at once, so that a turn without its grant ends soon."""

NOT_SHOWN = {
    "the emulator writes a function's log itself": ("* logs:*",),
    "the emulator says without it that an object is not there": ("* s3:ListBucket *",),
    "for connections that are gone without a close": (
        *("act dynamodb:DeleteItem *", "close dynamodb:DeleteItem *", "events dynamodb:DeleteItem *"),
        *("decide dynamodb:DeleteItem *", "output dynamodb:DeleteItem *", "sweeper dynamodb:DeleteItem *"),
        *("api dynamodb:DeleteItem *", "preflight dynamodb:DeleteItem *"),
    ),
    "for a write with a lost response, or a turn without an execution": (
        *("act dynamodb:GetItem *", "sweeper dynamodb:GetItem *"),
        "events dynamodb:GetItem *",
    ),
    "for a message that waits for the end of a turn, and for the listing of a turn that is given up": (
        *("close dynamodb:UpdateItem *", "close states:StartExecution *", "sweeper dynamodb:UpdateItem *"),
    ),
    "for a queued turn that starts when another is deleted or waits for a person": (
        *("act states:StartExecution *", "api states:StartExecution *"),
        *("act dynamodb:ConditionCheckItem *", "sweeper dynamodb:ConditionCheckItem *"),
    ),
    "for a call that waits for a person, of which the scene has none": ("act dynamodb:UpdateItem *",),
    "for a program that runs long enough to be asked to stop": ("execute dynamodb:GetItem *",),
    "since the sweeper does what Close could not": (
        *("close dynamodb:GetItem *", "close execute-api:ManageConnections *"),
    ),
    "for a message that finds a turn open": (
        *("socket states:DescribeExecution *", "events states:DescribeExecution *"),
    ),
    "for a client that resumes while a program runs": ("socket s3:GetObject exec/[*]*",),
    "for a turn beyond its deadline": ("sweeper states:StopExecution *",),
    "for a turn whose end no event has reported": ("sweeper states:DescribeExecution *",),
    "for the secret of a task without a waiting state": ("sweeper secretsmanager:DeleteSecret *",),
    "for a segment, without which the log is read": (
        "act s3:* seg/[*]",
        "decide s3:* seg/[*]",
        "api s3:* seg/[*]",
        "socket s3:* seg/[*]",
    ),
    "for a search of memory, of which the scene has none": ("act s3:* mem/[*]", "act dynamodb:Query GSI1"),
    "for the history of a project, which this stage does not keep": ("decide s3:* git/[*]",),
    "for values that a bundle keeps, and this one keeps none": (
        "act s3:* store/[*]",
        "decide s3:* store/[*]",
    ),
    "for secrets of a bundle's tools, and this one reads none": (
        *("decide secretsmanager:GetSecretValue *", "act secretsmanager:GetSecretValue *"),
        *("close secretsmanager:GetSecretValue *", "execute secretsmanager:GetSecretValue *"),
    ),
    "for the scanner of malware, of which the stage has none": ("preflight s3:GetObjectTagging *",),
    "for feedback, of which the scene has none": (
        *(
            "api dynamodb:ConditionCheckItem *",
            "close dynamodb:ConditionCheckItem *",
            "api dynamodb:Query GSI2",
        ),
    ),
    "for a person whom an admin erases": ("eraser dynamodb:BatchGetItem *",),
    "since the gateway reports the end of a connection, too": ("eraser dynamodb:DeleteItem *",),
    "for objects that a deleted conversation of the scene has none of, or one alone": (
        *("eraser s3:DeleteObject* git/[*]", "eraser s3:DeleteObject* store/[*]"),
        *("eraser s3:DeleteObject* quarantine/[*]", "eraser s3:DeleteObject* mem/[*]"),
        *("eraser s3:DeleteObjectVersion seg/[*]", "eraser s3:PutObject mem/[*]"),
    ),
    "for searches over HTTP, of which the scene has none": ("search *",),
    "for readers of streams, of which the scene has none": ("stream *", "api s3:* exec/[*]*"),
    "for calls of programs, of which the bundle of the scene declares none": (
        *("serve *", "execute lambda:InvokeFunction *"),
    ),
    "for a replay of a round, of which the scene has none": ("api lambda:InvokeFunction decide",),
    "for an import, of which the scene has none": ("api s3:PutObject att/[*]",),
    "for a batch of this function, or one that it reads, which is too long for its row": (
        *("close s3:*", "sweeper s3:*", "decide s3:* out/[*]", "socket s3:* out/[*]"),
        "events s3:* out/[*]",
    ),
}
"""Grants whose loss the scene cannot show, by the reason."""


@pytest.fixture(scope="module")
def home():
    """A place of its own for a stage, with what is slow to install already there."""
    if (backend := process_backend()).obstacle:
        pytest.skip(f"programs beside the functions: {backend.obstacle}")
    made = make_home(HOME) / "enforced"
    shutil.rmtree(made, ignore_errors=True)
    make_home(made)
    for name in ("emulator-env", "exec-env"):
        if (HOME / name).exists():
            shutil.copytree(HOME / name, made / name, symlinks=True, copy_function=os.link)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def stage(home):
    """The stage, deployed as always, whose emulator then came back with enforcement."""
    progress = [].append
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MODE_VARIABLE, "process")
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
            patch.delenv(name, raising=False)
        try:
            lifecycle.start_stage(progress, home)
            yield lifecycle.start_stage(progress, home, settings=SETTINGS), home
        finally:
            lifecycle.down(progress, home)


@pytest.fixture(scope="module")
def scene(stage):
    return Scene(*stage)


@pytest.fixture(scope="module")
def taken(stage, request):
    """Return the grants to remove, chosen by a seed that is printed."""
    seed = os.environ.get(SEED_VARIABLE) or str(random.SystemRandom().randrange(10**6))  # noqa: TID251 - a test's own switch
    write_line(request, f"{SEED_VARIABLE}={seed}")
    candidates = [grant for grant in read_grants(stage[0]) if not reasons(grant)]
    assert len(candidates) > 20
    return random.Random(seed).sample(candidates, min(TAKEN, len(candidates)))


def write_line(request, text):
    """Say something that is to be seen when all is well, too."""
    plugins = request.config.pluginmanager
    with plugins.getplugin("capturemanager").global_and_fixture_disabled():
        plugins.getplugin("terminalreporter").write_line(f"\n{text}")


def reasons(grant):
    return [
        why
        for why, patterns in NOT_SHOWN.items()
        if any(fnmatchcase(str(grant), pattern) for pattern in patterns)
    ]


def test_the_roles_allow_the_whole_way_of_a_message(scene):
    scene.play()


def test_every_exception_matches_an_existing_grant(stage):
    grants = read_grants(stage[0])
    for patterns in NOT_SHOWN.values():
        for pattern in patterns:
            assert any(fnmatchcase(str(grant), pattern) for grant in grants), pattern


def test_the_way_is_broken_without_a_grant_and_whole_again_with_it(stage, scene, taken, request):
    not_shown = []
    for grant in taken:
        with without(stage[0], grant):
            try:
                scene.play(patience=1)
                not_shown.append(str(grant))
            except BrokenTurnError as broken:
                write_line(request, f"without {grant}: {str(broken).partition(chr(10))[0]}")
        scene.play()
    assert not_shown == []
