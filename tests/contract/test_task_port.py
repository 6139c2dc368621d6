"""Handovers and tasks: what is handed over is there until it is taken or taken back, and never without its row."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from stepline.adapters.aws.table import HEAD, exec_pk
from stepline.adapters.aws.task import EcsTasks
from stepline.adapters.memory.task import MemoryTasks
from stepline.errors import DependencyError, InputError, NotFoundError, SteplineError
from stepline.model.ids import utc
from stepline.model.program.handover import SECRET_MAX_BYTES, TaskLaunch, secret_name
from tests.contract.conftest import Memory
from tests.support.aws import Aws, Faults

ALL_TRIES = 3


@pytest.fixture
def ref() -> str:
    return uuid.uuid4().hex


def at(backend: Memory | Aws, seconds: float) -> str:
    return utc(backend.clock.now() + timedelta(seconds=seconds))


def hand_over(
    backend: Memory | Aws, ref: str, text: str = "{}", *, cluster: str = "c", lasts_s: float = 60
) -> str:
    return backend.tasks.hand_over(ref, text, cluster=cluster, deadline=at(backend, lasts_s))


def listed(backend: Memory | Aws, ref: str, *, after_s: float) -> list[str]:
    """Return the cluster of a handover that is stale then; nothing if it is not."""
    stale = backend.tasks.stale(before=at(backend, after_s))
    return [one.cluster for one in stale if one.ref == ref]


def test_a_handover_is_claimed_once(backend, ref):
    name = hand_over(backend, ref, "hällo")
    assert backend.task_token.take(name) == "hällo"
    with pytest.raises(NotFoundError):
        backend.task_token.take(name)


def test_an_existing_handover_stays_unchanged(backend, ref):
    first = hand_over(backend, ref, "first")
    assert hand_over(backend, ref, "second") == first
    assert backend.task_token.take(first) == "first"


def test_a_handover_as_large_as_a_secret_passes_and_a_larger_one_is_refused_before_anything_is_kept(
    backend, ref
):
    name = hand_over(backend, ref, "x" * SECRET_MAX_BYTES)
    assert len(backend.task_token.take(name)) == SECRET_MAX_BYTES
    other = uuid.uuid4().hex
    with pytest.raises(InputError) as caught:
        hand_over(backend, other, "ä" * (SECRET_MAX_BYTES // 2 + 1))
    assert caught.value.reason == "payload_too_large"
    assert listed(backend, other, after_s=3600) == []


def test_a_revoked_handover_is_gone_and_can_be_revoked_again(backend, ref):
    name = hand_over(backend, ref)
    for _ in range(2):
        backend.tasks.take_back(ref)
        with pytest.raises(NotFoundError):
            backend.task_token.take(name)
    assert listed(backend, ref, after_s=3600) == []


def test_an_absent_handover_can_be_revoked_and_given_up(backend, ref):
    backend.tasks.take_back(ref)
    backend.tasks.give_up(ref)
    assert listed(backend, ref, after_s=3600) == []


def test_a_handover_is_stale_from_its_deadline_on(backend, ref):
    hand_over(backend, ref, cluster="mine", lasts_s=60)
    assert listed(backend, ref, after_s=59) == []
    assert listed(backend, ref, after_s=60) == ["mine"]


def test_a_run_that_was_given_up_has_no_secret_and_is_stale_at_once(backend, ref):
    name = hand_over(backend, ref, lasts_s=3600)
    backend.tasks.give_up(ref)
    with pytest.raises(NotFoundError):
        backend.task_token.take(name)
    assert listed(backend, ref, after_s=0) == ["c"]
    backend.tasks.take_back(ref)
    assert listed(backend, ref, after_s=3600) == []


def test_a_handover_that_is_renewed_is_stale_later(backend, ref):
    hand_over(backend, ref, lasts_s=10)
    hand_over(backend, ref, lasts_s=100)
    assert listed(backend, ref, after_s=50) == []


@pytest.mark.parametrize("end", ["take_back", "give_up"])
def test_a_row_stays_until_its_deadline_during_a_handover(backend, ref, end):
    begin(backend, ref, lasts_s=60)
    getattr(backend.tasks, end)(ref)
    assert listed(backend, ref, after_s=59) == []
    assert listed(backend, ref, after_s=60) == ["c"]
    backend.clock.pause(61)
    backend.tasks.take_back(ref)
    assert listed(backend, ref, after_s=60) == []


@pytest.mark.parametrize("end", ["take_back", "give_up"])
def test_a_handover_renewed_during_its_revocation_keeps_its_row(backend, ref, end, monkeypatch):
    hand_over(backend, ref)
    name = "drop_secret" if isinstance(backend.tasks, MemoryTasks) else "_delete_secret"
    delete = getattr(backend.tasks, name)

    def late(ref: str) -> None:
        delete(ref)
        hand_over(backend, ref, "woken", lasts_s=60)

    with monkeypatch.context() as patch:
        patch.setattr(backend.tasks, name, late)
        getattr(backend.tasks, end)(ref)
    assert listed(backend, ref, after_s=59) == []
    assert listed(backend, ref, after_s=60) == ["c"]
    backend.tasks.take_back(ref)
    assert listed(backend, ref, after_s=60) == []


def begin(backend: Memory | Aws, ref: str, *, lasts_s: float) -> None:
    """Begin to hand over, and die before it is done."""
    if isinstance(backend.tasks, MemoryTasks):
        backend.tasks.open_row(ref, "somebody", "c", at(backend, lasts_s))
        return
    hand_over(backend, ref, lasts_s=lasts_s)
    backend.tasks._update(ref, "ADD begun :me", {":me": {"SS": ["somebody"]}})


def test_a_state_is_ended_once_and_then_has_no_waiter():
    tasks = Memory().tasks
    tasks.waiting.add("token")
    assert tasks.beat("token")
    assert tasks.fail("token", "TaskStopped", "why")
    assert tasks.ended == {"token": ("TaskStopped", "why")}
    assert not tasks.fail("token", "again", "")
    assert not tasks.beat("token")
    assert not tasks.end("token")


def test_without_a_running_task_there_is_none_to_stop_and_no_input(backend, ref):
    assert backend.tasks.stop(ref, "no-such-cluster", "why") == 0
    assert backend.tasks.overrides("no-such-task", "no-such-cluster") == {}
    assert backend.tasks.running(ref, "no-such-cluster") == ()


def test_a_runs_location_is_known_from_its_handover_to_its_revocation(backend, ref):
    assert backend.tasks.cluster(ref) == ""
    hand_over(backend, ref, cluster="mine")
    assert backend.tasks.cluster(ref) == "mine"
    backend.tasks.give_up(ref)
    assert backend.tasks.cluster(ref) == "mine"
    backend.tasks.take_back(ref)
    assert backend.tasks.cluster(ref) == ""


# --- on ECS


@pytest.fixture
def cluster(aws, request) -> str:
    if "emulator" in request.node.name:
        pytest.skip("the emulator runs tasks in Docker")
    name = f"tasks-{uuid.uuid4().hex[:8]}"
    aws.tasks.ecs.create_cluster(clusterName=name)
    aws.tasks.ecs.register_task_definition(
        family=name,
        networkMode="awsvpc",
        requiresCompatibilities=["FARGATE"],
        cpu="256",
        memory="512",
        containerDefinitions=[{"name": "supervisor", "image": "none", "essential": True, "memory": 512}],
    )
    return name


def start(aws: Aws, cluster: str, ref: str, variables: dict[str, str]) -> str:
    subnet = _subnet()
    answer = aws.tasks.ecs.run_task(
        cluster=cluster,
        taskDefinition=cluster,
        launchType="FARGATE",
        startedBy=ref,
        networkConfiguration={"awsvpcConfiguration": {"subnets": [subnet], "securityGroups": ["sg-0"]}},
        overrides={
            "containerOverrides": [
                {
                    "name": "supervisor",
                    "environment": [{"name": name, "value": value} for name, value in variables.items()],
                }
            ]
        },
    )
    return str(answer["tasks"][0]["taskArn"])


def _subnet() -> str:
    from stepline.adapters.aws.client import connect

    ec2 = connect("ec2", read_timeout_s=5)
    return str(ec2.describe_subnets()["Subnets"][0]["SubnetId"])


def status(aws: Aws, cluster: str, task: str) -> str:
    return str(aws.tasks.ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"][0]["desiredStatus"])


def test_the_tasks_of_a_run_are_stopped_and_no_others(aws, cluster, ref):
    mine, other = (start(aws, cluster, name, {}) for name in (ref, uuid.uuid4().hex))
    assert aws.tasks.running(ref, cluster) == (mine,)
    assert aws.tasks.stop(ref, cluster, "x" * 1000) == 1
    assert status(aws, cluster, mine) == "STOPPED"
    assert status(aws, cluster, other) != "STOPPED"


def test_a_task_returns_the_input_of_its_start(aws, cluster, ref):
    variables = {"STEPLINE_TASK_TOKEN": "t", "STEPLINE_EXEC_PAYLOAD_SECRET_ID": "s"}
    task = start(aws, cluster, ref, variables)
    assert aws.tasks.overrides(task, cluster) == variables


def launch_of(ref: str, cluster: str) -> TaskLaunch:
    return TaskLaunch(
        ref=ref,
        client_token=f"{ref}-1",
        secret="the-secret",
        cluster=cluster,
        task_definition=cluster,
        container_name="supervisor",
        subnets=(_subnet(),),
        security_groups=("sg-0",),
        assign_public_ip="ENABLED",
        platform_version="LATEST",
    )


def test_a_task_that_is_started_is_found_by_its_run_and_knows_its_state(aws, cluster, ref):
    aws.tasks.start(launch_of(ref, cluster), "token", 0)
    (task,) = aws.tasks.running(ref, cluster)
    assert aws.tasks.overrides(task, cluster) == {
        "STEPLINE_TASK_TOKEN": "token",
        "STEPLINE_EXEC_PAYLOAD_SECRET_ID": "the-secret",
    }


def test_every_attempt_of_a_task_has_a_new_client_token(aws, cluster, ref):
    heard: list[str] = []
    aws.tasks.ecs.meta.events.register(
        "provide-client-params.ecs.RunTask", lambda params, **_: heard.append(params["clientToken"])
    )
    for attempt in (0, 1, 1):
        aws.tasks.start(launch_of(ref, cluster), "token", attempt)
    assert heard == [f"{ref}-1-0", f"{ref}-1-1", f"{ref}-1-1"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((200, {"tasks": [], "failures": [{"reason": "RESOURCE:ENI"}]}), DependencyError),
        ((400, {"__type": "ThrottlingException", "message": "Rate exceeded"}), DependencyError),
        ((500, {"__type": "ServerException", "message": "…"}), DependencyError),
        ((400, {"__type": "ClientException", "message": "Capacity is unavailable"}), DependencyError),
        (
            (400, {"__type": "ClientException", "message": "the limit on the number of vCPUs"}),
            DependencyError,
        ),
        ((400, {"__type": "AccessDeniedException", "message": "no"}), SteplineError),
        ((400, {"__type": "InvalidParameterException", "message": "no"}), SteplineError),
    ],
)
def test_a_task_that_is_not_started_says_whether_it_may_be_later(aws, cluster, faults: Faults, answer, kind):
    launch = launch_of("run", cluster)
    faults.answer(aws.tasks.ecs, "RunTask", *answer)
    with pytest.raises(SteplineError) as caught:
        aws.tasks.start(launch, "token", 0)
    assert type(caught.value) is kind


# --- services that fail


def refused(code: str) -> dict[str, Any]:
    return {"__type": code, "message": "…"}


@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_a_token_without_a_waiter_is_no_error(aws, faults: Faults, code):
    faults.answer(aws.tasks.states, "SendTaskFailure", 400, refused(code))
    assert aws.tasks.fail("token", "TaskStopped", "why") is False


def test_a_reason_longer_than_a_state_takes_is_cut(moto_aws):
    assert moto_aws.tasks.fail("token", "x" * 1000, "y" * 100_000)


def test_an_unreachable_state_is_a_failed_dependency(aws, faults: Faults):
    faults.answer(aws.tasks.states, "SendTaskFailure", 400, refused("ThrottlingException"))
    with pytest.raises(DependencyError):
        aws.tasks.fail("token", "TaskStopped", "why")


@pytest.mark.parametrize("operation", ["ListTasks", "DescribeTasks"])
def test_a_throttled_look_at_tasks_is_a_failed_dependency(aws, ref, faults: Faults, operation):
    faults.answer(aws.tasks.ecs, operation, 400, refused("ThrottlingException"))
    with pytest.raises(DependencyError):
        aws.tasks.stop(ref, "c", "why") if operation == "ListTasks" else aws.tasks.overrides("t", "c")


def test_a_secret_that_cannot_be_made_leaves_a_row_for_the_sweeper(aws, ref, faults: Faults):
    faults.answer(aws.tasks.secrets, "CreateSecret", 500, refused("InternalServiceError"))
    with pytest.raises(DependencyError):
        hand_over(aws, ref, lasts_s=60)
    assert listed(aws, ref, after_s=60) == ["c"]


def test_a_name_with_a_secret_in_deletion_is_retried_later(aws, ref, faults: Faults):
    faults.answer(aws.tasks.secrets, "CreateSecret", 400, refused("InvalidRequestException"))
    with pytest.raises(DependencyError):
        hand_over(aws, ref)


def test_a_handover_with_a_lost_response_is_stored(aws, ref, faults: Faults):
    faults.lose_answers(aws.tasks.secrets, "CreateSecret", times=1)
    assert aws.task_token.take(hand_over(aws, ref, "text")) == "text"


def test_a_handover_counts_once_though_its_start_is_sent_twice(aws, ref, faults: Faults):
    faults.lose_answers(aws.table.client, "UpdateItem", times=1)
    hand_over(aws, ref)
    aws.tasks.take_back(ref)
    assert listed(aws, ref, after_s=3600) == []


def test_an_end_that_is_sent_twice_does_not_end_another_handover(aws, ref, faults: Faults, monkeypatch):
    create = aws.tasks.secrets.create_secret

    def then_lose(**asked: Any) -> Any:
        faults.lose_answers(aws.table.client, "UpdateItem", times=1)
        return create(**asked)

    with monkeypatch.context() as patch:
        patch.setattr(aws.tasks.secrets, "create_secret", then_lose)
        hand_over(aws, ref)
    aws.tasks._update(ref, "ADD begun :me", {":me": {"SS": ["somebody"]}})
    aws.tasks.take_back(ref)
    assert listed(aws, ref, after_s=3600) == ["c"]


def test_a_secret_that_cannot_be_deleted_keeps_its_row(aws, ref, faults: Faults):
    hand_over(aws, ref)
    faults.lose_answers(aws.tasks.secrets, "DeleteSecret", times=ALL_TRIES)
    with pytest.raises(DependencyError):
        aws.tasks.take_back(ref)
    assert listed(aws, ref, after_s=3600) == ["c"]


def test_a_row_that_the_index_still_lists_is_looked_up_before_it_is_believed(aws, ref, monkeypatch):
    hand_over(aws, ref)
    query = aws.table.query

    def late(*asked: Any, **params: Any) -> Any:
        items = list(query(*asked, **params))
        aws.tasks.take_back(ref)
        return iter(items)

    monkeypatch.setattr(aws.table, "query", late)
    assert listed(aws, ref, after_s=3600) == []


def test_a_row_holds_names_and_no_content(aws, ref):
    hand_over(aws, ref, "s3cret")
    row = aws.table.get(exec_pk(ref), HEAD, consistent=True)
    assert set(row) == {"pk", "sk", "lane_shard", "lane_since", "cluster", "expires_at", "begun", "done"}
    assert "s3cret" not in str(row)
    assert isinstance(aws.tasks, EcsTasks)
    assert secret_name(aws.name, ref) not in str(row)
