"""An inspected and replayed round, and branches, in the story of the rights that functions use."""

from contextlib import suppress
from http import HTTPStatus

import msgspec

from stepline.adapters.aws.client import connect
from stepline.adapters.memory.model import MemoryModelClient
from stepline.adapters.replays.replay_call import InvokedReplays
from stepline.adapters.replays.replay_rows import DynamoReplays
from stepline.api.endpoint import Services
from stepline.api.inspector import ENDPOINTS
from stepline.api.router import Request, Router
from stepline.errors import SteplineError
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.inspection.replay_request import ReplayPorts
from stepline.log.timeline_cache import History, segment_key
from stepline.loop.replays.replay_round import ChosenModel, ReplayDesk, replay_round
from stepline.model.entry import Decided
from tests.stacks.taken_files import ME
from tests.support.conversation import LANE, USER
from tests.support.generation import answered


def inspect(conversation):
    """Its owner sees a request and a reply."""
    services = Services(ports=conversation.ports, history=History(), inspect="owner")
    n = next(batch.n for batch in conversation.batches() for e in batch.entries if isinstance(e, Decided))
    with conversation.acting("api"):
        for ask in (f"requests/{n}", f"decisions/{n}", "export"):
            asked = Request(method="GET", path=f"/v1/conversations/{LANE.conversation}/{ask}")
            assert Router(ENDPOINTS).answer(services, ME, asked).status == HTTPStatus.OK
    replay_a_round(conversation, n)


def replay_a_round(conversation, n):
    """Its owner replays a round four times, of which three are kept; Decide makes the last one."""
    rows = DynamoReplays(conversation.ports.log.table, conversation.clock)
    start = Started("arn:aws:lambda:us-east-1:123456789012:function:stepline-prod-decide:live")
    services = Services(
        ports=conversation.ports,
        history=History(),
        inspect="owner",
        replaying=ReplayPorts(replays=rows, start=start),
    )
    path, body = f"/v1/conversations/{LANE.conversation}/replays", msgspec.json.encode({"decided_n": n})
    with conversation.acting("api"):
        for _ in range(4):
            asked = Request(method="POST", path=path, headers={"content-type": "application/json"}, body=body)
            assert Router(ENDPOINTS).answer(services, ME, asked).status == HTTPStatus.ACCEPTED
        asked = Request(method="GET", path=f"{path}/{start.calls[-1].replay}")
        assert Router(ENDPOINTS).answer(services, ME, asked).status == HTTPStatus.OK
    model = ChosenModel(MemoryModelClient(answered("Again.")), "")
    desk = ReplayDesk(
        ports=conversation.own_ports,
        replays=rows,
        history=History(),
        agent=lambda: conversation.agent,
        choose=lambda *_: model,
    )
    with conversation.acting("decide"):
        assert replay_round(desk, start.calls[-1]) == "ended"


def branch_twice(conversation):
    """Its owner makes a branch, and another one of a conversation whose segment has expired."""
    ports, tail = conversation.ports, conversation.batches()[-1]
    point, key = ForkPoint(kind="batch", at=str(tail.n)), segment_key(LANE, tail.state.segment)
    with conversation.acting("api"):
        fork_conversation(ports, LANE, point, user=USER, conversation="b-1", branch=True)
    with conversation.calls.by(""):
        segment = ports.artifacts.get(key)
        connect("s3", read_timeout_s=5).delete_object(Bucket=conversation.bucket, Key=key)
    with conversation.acting("api"):
        fork_conversation(ports, LANE, point, user=USER, conversation="b-2", branch=True)
    with conversation.calls.by(""):
        ports.artifacts.put(key, segment, mime="application/json")


class Started(InvokedReplays):
    """Notes the events; there is no function to invoke."""

    def __init__(self, arn):
        super().__init__(arn)
        self.calls = []

    def __call__(self, call):
        with suppress(SteplineError):
            super().__call__(call)
        self.calls.append(call)
