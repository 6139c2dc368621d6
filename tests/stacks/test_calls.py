"""The rights that the functions use, call by call, against those they are given: none is missing, none is spare."""

import dataclasses
import math
from datetime import timedelta
from http import HTTPStatus

import boto3
import msgspec
import pytest
from msgspec.structs import replace

from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
from stepline.adapters.memory.model import Say
from stepline.adapters.polling_signals import PollingSignals
from stepline.delivery.program_log import post_log
from stepline.delivery.stage_queue import free_mark
from stepline.ingress.access import issue_ticket
from stepline.ingress.admit import Arrival, admit
from stepline.ingress.delete import end_conversation
from stepline.ingress.erase_user import erase_all
from stepline.loop.programs.make_outcome import RUN
from stepline.loop.programs.remote import StoppedTask, end_wait, start_task, sweep_tasks
from stepline.loop.sweep import sweep
from stepline.model.entry import ApprovalRequested
from stepline.model.file.upload_slot import QUARANTINE
from stepline.model.ids import execution_name
from stepline.model.path import exec_key
from stepline.model.program.execution import Run
from stepline.model.program.handover import STEERED, TOKEN_VARIABLE
from stepline.model.program.running_log import RunningLog, log_key, read_log_key
from stepline.ports.tenancy.accounts import STEP
from stepline.tools.context import Store
from stepline_cdk.access import ACCESS, INGRESS, LOOP
from stepline_cdk.event_source import PRINCIPAL
from tests.stacks.inspected_round import branch_twice, inspect
from tests.stacks.recorder import Calls, Cloud
from tests.stacks.served_program import ROW, SCOPE, declare_calls, search_rows, serve_calls
from tests.stacks.taken_files import ME, lose_a_listener, take_files
from tests.stacks.unseen_right import BOTH_KEYS, BY_ANOTHER_PROOF, SELDOM
from tests.support.api_caller import Caller
from tests.support.aws import moto
from tests.support.conversation import FAR, LANE, USER
from tests.support.generation import answered, called, coded
from tests.support.moved_conversation import bring, exported, said

BIG = "x" * 40_000
SCRIPT = tuple(
    Say(text=text, piece_chars=4_000)
    for text in (
        called("react.write", {"path": "files/a.md", "channel": "canvas", "content": BIG}),
        called("react.memsearch", {"mode": "timeline", "scope": "user"}),
        coded("print(1)", "outputs/a.txt"),
        coded("print(2)", "outputs/b.txt"),
        coded("print(4)", "outputs/d.txt"),
        answered(BIG),
        coded("print(3)", "outputs/c.txt"),
        coded("print(5)", "outputs/e.txt"),
    )
)


def granted(principal):
    """What the table gives, as pairs of an action and what it may be done to."""
    pairs = set()
    for right in ACCESS[principal]:
        if right.on not in BY_ANOTHER_PROOF:
            for action in right.actions:
                pairs |= {(action, one) for one in (right.of or (right.on,))}
    return pairs


@pytest.fixture(scope="module")
def used():
    with moto():
        calls = Calls()
        play(Cloud(calls, *SCRIPT))
        by_service = Cloud(calls, *SCRIPT, ingress="events")
        by_service.clock.pause(86_400)  # or its turns and tasks would have the names of those before
        play_by_service(by_service)
    return calls.used


def play(conversation):
    """Play a conversation with everything that makes a function call AWS."""
    come_in(conversation)
    keep_values(conversation)
    take_turns(conversation)
    inspect(conversation)
    run_a_program_here(conversation)
    lose_a_turn(conversation)
    call_the_api(conversation)
    search_over_http(conversation)
    take_files(conversation)
    wait_in_line(conversation)
    move_in(conversation)
    branch_twice(conversation)
    delete_it(conversation)
    erase_its_user(conversation)


def play_by_service(conversation):
    """Play the parts that begin with a message, where a service speaks for the user."""
    come_in(conversation)
    take_turns(conversation)
    run_a_program_here(conversation)
    lose_a_turn(conversation)
    wait_in_line(conversation)
    delete_it(conversation)


def take_turns(conversation):
    """The agent uses tools and tasks, is steered, fails, and answers."""
    conversation.say(BIG, loses="request")
    use_a_tool(conversation)
    look_back(conversation)
    hear_nothing_of_a_task(conversation)
    hear_of_a_task(conversation)
    steer_away_from_a_task(conversation)
    fail_and_go_on(conversation)
    answer(conversation)


def come_in(conversation):
    """A ticket opens the socket, and another one renews it."""
    with conversation.acting("api"):
        first, second = (issue_ticket(conversation.ports, ME, "wss://x").ticket for _ in range(2))
    with conversation.acting("authorizer"):
        who = conversation.ports.tickets.redeem(first)
    conversation.publisher.open("k1")
    with conversation.acting("socket"):
        conversation.ports.subscriptions.connect("k1", who)
        conversation.ports.subscriptions.subscribe(LANE, "k1", FAR, USER)
    conversation.say(action="auth", ticket=second)


def call_the_api(conversation):
    """A client lists, reads, names and marks the conversation, which is in a segment, with its long texts elsewhere."""
    lose_a_listener(conversation)
    with conversation.acting("api"):
        caller = Caller(conversation.ports)
        url = f"/v1/conversations/{LANE.conversation}"
        caller.get("/v1/conversations")
        caller.get(url)
        caller.get(f"{url}/events")
        caller.ask("PUT", f"{url}/read", {"n": 1})
        for title in ("Mine", "Mine after all"):
            caller.ask("PATCH", url, {"title": title})
        rows = caller.get(f"{url}/files", limit="200")["items"]
        (file,) = [row for row in rows if row["filename"] == "a.md"]
        caller.post(f"{url}/file-links", {"path": file["logical_path"]})
        assert caller.post("/resources/by-rn", {"rn": file["rn"]})["content"]
    rate_a_turn(conversation, caller)
    limit(conversation, caller)


def limit(conversation, caller):
    """An admin limits a user, who sees what is left and what was spent."""
    with conversation.acting("api"):
        caller.principal = replace(caller.principal, role="project_admin")
        where = f"/v1/tenants/{LANE.tenant}/projects/{LANE.project}/users/{USER}/limits"
        caller.ask("PUT", where, {"turns_at_once": 5})
        caller.principal = replace(caller.principal, role="user")
        caller.get("/v1/limits")
        caller.get(f"/v1/conversations/{LANE.conversation}/receipts")


def rate_a_turn(conversation, caller):
    """A client rates a turn and takes it back, over both ways; then it is counted, for its user and for an admin."""
    turn = next(turn for turn in conversation.timeline().history if turn.closed).id
    url = f"/v1/conversations/{LANE.conversation}/turns/{turn}/feedback"
    period = {"start": "2026-01-01", "end": "2026-01-02"}
    for reaction in ("ok", None, "not_ok"):
        with conversation.acting("api"):
            caller.ask("PUT", url, {"reaction": reaction})
    with conversation.acting("socket"):  # again: a connection lasts for two hours
        conversation.ports.subscriptions.connect("k1", ME)
    for i, reaction in enumerate(("neutral", None)):
        conversation.say(action="feedback", message_id=f"rated{i}", turn=turn, reaction=reaction)
    until = conversation.clock.now()
    days = {"from": f"{until - timedelta(days=2):%Y-%m-%d}", "to": f"{until:%Y-%m-%d}"}  # each day is a query
    with conversation.acting("api"):
        caller.ask("PUT", url, {"reaction": "ok"})
        for role in ("user", "project_admin"):
            caller.principal = replace(caller.principal, role=role)
            counted = caller.get("/v1/feedback", **days)
            assert (counted["user"]["ok"], counted["next"]) == (1, "")
            caller.post("/conversations/acme/support/feedback/conversations-in-period", period)


def move_in(conversation):
    """Another conversation moves in, with an answer that is too long for a batch."""
    with conversation.acting("api"):
        assert bring(conversation.ports, exported(said().ports), who=ME).state == "whole"


def delete_it(conversation):
    """It is deleted while a program runs in a task, a file waits for its judge, and two listen, one of whom has gone."""
    desk = conversation.desk()
    conversation.say("and then it is over")
    start_elsewhere(launch(conversation).launch)
    lose_a_listener(conversation)
    with conversation.calls.by(""):
        conversation.ports.artifacts.put(f"{QUARANTINE}/{LANE.prefix()}/late", b"x", mime="text/plain")
    url = f"/v1/conversations/{LANE.conversation}"
    with conversation.acting("api"):
        caller = Caller(conversation.ports)
        caller.services = dataclasses.replace(caller.services, erasing=desk)
        caller.ask("DELETE", url)
        caller.get(f"{url}/erasure")
    with conversation.calls.by("eraser"):
        erase_all(desk, until_s=math.inf)
    with conversation.calls.by("socket"):
        conversation.ports.subscriptions.disconnect("k1")


def erase_its_user(conversation):
    """They are connected, and have a ticket; an admin has them erased. All goes in passes, the last a day later."""
    desk = conversation.desk()
    with conversation.calls.by("socket"):
        conversation.ports.subscriptions.connect("k1", ME)
        conversation.ports.subscriptions.watch("k1", ME)
        conversation.ports.subscriptions.subscribe(replace(LANE, conversation="other"), "k1", FAR, USER)
    with conversation.calls.by("api"):
        issue_ticket(conversation.ports, ME, "wss://x")
        caller = Caller(conversation.ports, user="admin", role="tenant_admin")
        caller.services = dataclasses.replace(caller.services, erasing=desk)
        url = f"/v1/tenants/{LANE.tenant}/projects/{LANE.project}/users/{USER}/erasure"
        caller.ask("POST", url)
        caller.get(url)
    for _ in range(3):
        with conversation.calls.by("eraser"):
            erase_all(desk, until_s=math.inf)
        conversation.clock.pause(86_400)
    assert not desk.erasure.pending(before="9")
    assert not desk.users.pending()


def search_over_http(conversation):
    """A client searches the conversation with the index of its own process: rows are packed, and read again."""
    with conversation.acting("search"):
        for _ in range(2):
            ports = conversation.ports
            index = EmbeddedMemoryIndex(ports)
            caller = Caller(dataclasses.replace(ports, memory=index))
            caller.get("/v1/search", q="x", conversation=LANE.conversation)
            Caller(caller.services.ports, user="nobody").get("/v1/search", q="x")
            where = f"/conversations/{LANE.tenant}/{LANE.project}/search"
            assert caller.post(where, {"query": "hi"})["conversations"]
            for _ in range(STEP):  # a process writes this many requests at once
                caller.ask("GET", "/v1/search")
            index.add(SCOPE, [ROW])


def keep_values(conversation):
    """Hooks and tools of a bundle keep values for its user."""
    for principal in ("decide", "act", "close"):
        with conversation.acting(principal):
            store = Store(artifacts=conversation.ports.artifacts, lane=LANE, user=USER)
            store.put("seen", [1])
            assert (store.get("seen"), store.get(f"of {principal}".replace(" ", "_"))) == ([1], None)


def use_a_tool(conversation):
    with conversation.acting("decide", loses="answer") as step:
        lose_a_listener(conversation)
        conversation.decide(step)
    wait_for_a_person(conversation)
    with conversation.acting("act", loses="answer") as step:
        lose_a_listener(conversation)
        conversation.act(step)


def wait_for_a_person(conversation):
    """The call is shown to the user, who lets it run."""
    agent = conversation.agent
    conversation.agent = dataclasses.replace(agent, approvals=lambda _: "always")
    with conversation.acting("act") as step:
        conversation.act(step)
    conversation.agent = agent
    (asked,) = conversation.entries(ApprovalRequested)
    conversation.say(action="approve", message_id="allowed", call_id=asked.action.call_id)


def look_back(conversation):
    """The agent lists the turns of all of the user's conversations, and searches them: rows are packed, and read again."""
    with conversation.acting("decide") as step:
        conversation.decide(replace(step, attempt=1))  # the one before has died
    with conversation.acting("act") as step:
        conversation.act(step)
        search_rows(conversation)


def hear_nothing_of_a_task(conversation):
    step = launch(conversation)
    with conversation.acting("act"):
        start_task(conversation.ports, step, "token")  # there is no such cluster, and the state is notified
        conversation.act(replace(step, error={"Error": "States.HeartbeatTimeout", "Cause": ""}))
    task = start_elsewhere(step.launch)
    conversation.clock.pause(3600)
    with conversation.acting("sweeper"):
        assert sweep_tasks(conversation.ports) == {"tasks_swept": 1}
        assert end_wait(conversation.ports, StoppedTask(task=task, cluster=step.launch.cluster, reason="r"))


def hear_of_a_task(conversation):
    step = launch(conversation)
    with conversation.calls.by(""):
        key = exec_key(LANE, step.turn, conversation.state.running, RUN)
        body = msgspec.json.encode(Run(returncode=0, seconds=0.5))
        conversation.ports.artifacts.put(key, body, mime="application/json")
    with conversation.acting("act"):
        conversation.act(step)


def steer_away_from_a_task(conversation):
    """The steer comes before the task is visible, and once more after it."""
    step = launch(conversation)
    steer = {"action": "event", "kind": "steer", "message_id": "s1", "payload": {"text": "not that"}}
    conversation.say(**steer)
    start_elsewhere(step.launch)
    conversation.say(**steer)
    with conversation.acting("act"):
        conversation.act(replace(step, error={"Error": STEERED, "Cause": ""}))
    with conversation.acting("act") as step:
        assert step.route == "decide"


def launch(conversation):
    """Decide for a program and prepare it; return the step that would start its task."""
    with conversation.acting("decide") as step:
        conversation.decide(step)
    with conversation.acting("act") as step:
        launched = conversation.act(step)
    assert launched.route == "execute_task"
    return launched


def start_elsewhere(asked):
    """Start a task as the machine would; return its ARN."""
    ecs, ec2 = boto3.client("ecs"), boto3.client("ec2")
    ecs.create_cluster(clusterName=asked.cluster)
    containers = [{"name": asked.container_name, "image": "i", "memory": 128}]
    ecs.register_task_definition(family=asked.task_definition, containerDefinitions=containers)
    (subnet, *_) = ec2.describe_subnets()["Subnets"]
    (group, *_) = ec2.describe_security_groups()["SecurityGroups"]
    network = {"subnets": [subnet["SubnetId"]], "securityGroups": [group["GroupId"]]}
    variables = [{"name": TOKEN_VARIABLE, "value": "token"}]
    (task,) = ecs.run_task(
        cluster=asked.cluster,
        taskDefinition=asked.task_definition,
        launchType="FARGATE",
        startedBy=asked.ref,
        networkConfiguration={"awsvpcConfiguration": network},
        overrides={"containerOverrides": [{"name": asked.container_name, "environment": variables}]},
    )["tasks"]
    return task["taskArn"]


def fail_and_go_on(conversation):
    """The turn fails while a message waits, which opens the next one."""
    lose_a_listener(conversation)
    conversation.say("and then?")
    with conversation.acting("close", loses="answer") as step:
        lose_a_listener(conversation)
        conversation.close(replace(step, error={"Error": "States.Timeout", "Cause": ""}))
    assert conversation.state.status == "open"


def answer(conversation):
    with conversation.acting("decide") as step:
        conversation.decide(step)
    with conversation.acting("close") as step:
        conversation.close(step)
    assert conversation.state.status == "idle"


def run_a_program_here(conversation):
    """It runs until the log was read for a steer."""

    def run(job):
        assert conversation.ports.log.looked.wait(60)
        serve_calls(conversation, job)
        return Run(returncode=0, seconds=0.5)

    remote = conversation.agent
    conversation.programs(run)
    declare_calls(conversation)
    conversation.say("once more")
    read_as_a_stream(conversation)
    with conversation.acting("decide") as step:
        conversation.decide(step)
    with conversation.acting("act") as step:
        prepared = conversation.act(step)
    assert prepared.route == "execute"
    conversation.ports.log.looked.clear()
    ports = conversation.ports
    conversation.ports = dataclasses.replace(ports, signals=PollingSignals(ports.log, 0.01))
    with conversation.acting("execute"):
        conversation.execute(prepared)
    hear_of_its_output(conversation)
    conversation.ports, conversation.agent = ports, remote
    with conversation.acting("act") as step:
        conversation.act(step)


def hear_of_its_output(conversation):
    """A copy of its log is posted, one is gone again, and a client asks for it."""
    key = log_key(LANE, conversation.state.turn, conversation.state.running)
    with conversation.acting("output"):
        lose_a_listener(conversation)
        post_log(conversation.ports, *read_log_key(key))  # there is none
    conversation.say(action="resume")
    read_as_a_stream(conversation)
    with conversation.calls.by(""):
        copy = msgspec.json.encode(RunningLog(lane="exec.0.log", text="so far"))
        conversation.ports.artifacts.replace(key, copy, mime="application/json")
    with conversation.acting("output"):
        post_log(conversation.ports, *read_log_key(key))
    conversation.say(action="resume")
    read_as_a_stream(conversation)


def read_as_a_stream(conversation):
    """A client reads the whole conversation by the protocol of Durable Streams, and waits; another one is not found."""
    with conversation.acting("api"):  # of a stage whose readers do not wait
        assert Caller(conversation.ports).get(f"/v1/conversations/{LANE.conversation}/stream")
    with conversation.acting("stream"):
        caller = Caller(conversation.ports)
        caller.services = dataclasses.replace(caller.services, wait_s=1)
        here = (url := "/v1/conversations/{}/stream").format(LANE.conversation)
        assert caller.get(here)
        caller.ask("GET", here, offset="now", live="long-poll")
        assert caller.ask("GET", url.format("another")).status == HTTPStatus.NOT_FOUND
        for _ in range(STEP):  # a process writes this many requests at once
            caller.ask("HEAD", here)


def wait_in_line(conversation):
    """The stage has room for one more turn. Others are queued, and the process that frees its slot starts the next one."""
    ports = conversation.ports
    bound = dataclasses.replace(ports, policy=dataclasses.replace(ports.policy, open_turns=1))
    lanes = [replace(LANE, conversation=f"line-{at}") for at in range(7)]
    conversation.ports = bound
    for lane in lanes:
        arrival = Arrival(message_id="m1", user=lane.conversation, text="hi")
        with conversation.acting(conversation.ingress):
            admit(conversation.ports, lane, arrival)
        conversation.clock.pause(1)
    for lane, principal in zip(lanes, ("close", "act", "sweeper", "api"), strict=False):
        with conversation.acting(principal):
            lose_a_listener(conversation)
            free_mark(conversation.ports, lane, conversation.batches(lane)[-1].n)
    with conversation.acting(conversation.ingress):
        ends = Arrival(message_id="m2", user=lanes[-2].conversation, kind="stop")
        admit(conversation.ports, lanes[-2], ends)
    with conversation.acting("eraser"):
        end_conversation(conversation.ports, lanes[-1], lanes[-1].conversation)
    conversation.ports = ports


def lose_a_turn(conversation):
    """Its execution ends, and the next one; those after them run for too long, and the sweeper gives it up."""
    conversation.say(action="resume")
    conversation.say(action="ping")
    machine = conversation.ports.machine
    with conversation.calls.by(""):
        machine.stop(execution_name(LANE, conversation.state.epoch))
    conversation.say("hello?", loses="answer")
    with conversation.calls.by(""):
        machine.stop(execution_name(LANE, conversation.state.epoch))
    while conversation.state.status == "open":
        conversation.clock.pause(3600)
        with conversation.acting("sweeper", loses="answer"):
            lose_a_listener(conversation)
            sweep(conversation.ports)


@pytest.mark.parametrize("principal", [*INGRESS, *LOOP, PRINCIPAL])
def test_no_right_is_missing(used, principal):
    assert used[principal] - granted(principal) == set()


@pytest.mark.parametrize("principal", [*INGRESS, *LOOP, PRINCIPAL])
def test_no_right_is_spare(used, principal):
    assert granted(principal) - used[principal] == SELDOM.get(principal, set()) | BOTH_KEYS.get(
        principal, set()
    )
