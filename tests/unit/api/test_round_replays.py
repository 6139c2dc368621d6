"""Replays of single rounds over the API: the same request once more, its result beside the record, and its refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from stepline.adapters.memory.model import Fail
from stepline.adapters.memory.replays.replay_rows import MemoryReplays
from stepline.api.endpoint import Services
from stepline.api.inspector import ENDPOINTS
from stepline.api.router import Request, Router
from stepline.errors import ModelOverloaded, ModelRefused
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.inspection.replay_request import REPLAYS_MAX, START_S, SYSTEM_MAX_BYTES
from stepline.log.timeline_cache import History
from stepline.model.ids import Lane
from stepline.model.tenancy.limits import Limits, ScopeLimits, scopes_of
from stepline.ports.channel import Inspect, Principal
from stepline.ports.model import ModelClient, ModelRequest, Part
from stepline.ports.round_replay import REPLAY_TTL_S, ReplayState, RoundReplay
from stepline.tools.context import ToolOutput
from tests.support.conversation import FAR, LANE, USER, Conversation, tool
from tests.support.generation import BROKEN, answered, called
from tests.support.replays import OTHER, Replays

SPEAK = "test.speak"
CONV = f"/v1/conversations/{LANE.conversation}"
ROUTER = Router(ENDPOINTS)
JSON = {"content-type": "application/json"}
SCOPES = scopes_of(LANE.tenant, LANE.project, USER)


class World:
    """A conversation of one turn with two rounds, whose rounds are replayed with `script`."""

    def __init__(self, *script: Any, inspect: Inspect = "owner", **policy: Any) -> None:
        self.conversation = Conversation(called(SPEAK), answered("Done."), **policy)
        self.spoken = 0
        self.conversation.use(tool(SPEAK, "pure", self._speak))
        self.conversation.send("speak")
        self.conversation.run()
        self.replays = Replays(self.conversation, *script)
        self.services = Services(
            ports=self.conversation.ports,
            history=History(),
            inspect=inspect,
            replaying=self.replays.ports,
        )

    def _speak(self, context: Any) -> ToolOutput:
        self.spoken += 1
        return ToolOutput(blocks=(context.result(SPEAK, "a tale"),))

    def ask(
        self, method: str, what: str, body: Any = None, *, key: str = "", base: str = CONV, **who: Any
    ) -> tuple[int, Any]:
        """Return status and body of an answer."""
        path, _, query = what.partition("?")
        fields = {"tenant": LANE.tenant, "project": LANE.project, "user": USER, **who}
        request = Request(
            method=method,
            path=f"{base}/{path}",
            query=dict(q.split("=") for q in query.split("&") if q),
            headers={**JSON, **({"idempotency-key": key} if key else {})},
            body=b"" if body is None else json.dumps(body).encode(),
        )
        answer = ROUTER.answer(self.services, Principal(**fields, expires_at=FAR), request)
        return int(answer.status), json.loads(answer.body)

    def start(self, n: int = 2, *, key: str = "", **wish: Any) -> str:
        status, body = self.ask("POST", "replays", {"decided_n": n, **wish}, key=key)
        assert status == 202, body
        found: str = body["replay"]
        return found

    def see(self, replay: str) -> Any:
        status, body = self.ask("GET", f"replays/{replay}")
        assert status == 200, body
        return body

    def refusal(self, **body: Any) -> tuple[int, str]:
        status, answer = self.ask("POST", "replays", {"decided_n": 2, **body})
        return status, answer["code"]

    def used(self) -> int:
        at = self.conversation.clock.now()
        return self.conversation.ports.accounts.used(SCOPES, at)[0].tokens_day


def test_a_replay_asks_the_model_once_more_and_changes_nothing() -> None:
    world = World(answered("Another answer."))
    before, spoken = world.conversation.batches(), world.spoken
    name = world.start()
    assert world.see(name)["state"] == "running"
    assert world.replays.make() == "ended"
    found = world.see(name)
    assert (found["state"], found["equal"], found["text"]) == ("ended", True, "")
    assert found["reply"]["decision"]["final_answer"] == "Another answer."
    assert found["reply"]["usage"]["output_tokens"] > 0
    (asked,) = world.replays.model.requests
    recorded = world.conversation.model.requests[0]
    assert (asked.system, asked.content, asked.max_tokens) == (
        recorded.system,
        recorded.content,
        recorded.max_tokens,
    )
    assert (world.conversation.batches(), world.spoken) == (before, spoken)
    assert world.conversation.ports.deltas.notes(LANE, 0).get(0) is None


def test_a_call_in_a_replay_is_shown_and_does_not_run() -> None:
    world = World(called(SPEAK))
    name = world.start(4)
    world.replays.make()
    (call,) = world.see(name)["reply"]["decision"]["actions"]
    assert (call["tool_id"], world.spoken) == (SPEAK, 1)


def test_a_replay_has_the_wished_model_effort_and_system_part() -> None:
    world = World(answered("Arr."))
    name = world.start(model=OTHER, effort="high", system="You are a pirate.")
    world.replays.make()
    assert world.replays.chosen == [(OTHER, "high")]
    (asked,) = world.replays.model.requests
    before = world.conversation.model.requests[0]
    assert asked.system == (Part(text="You are a pirate.", cache=before.system[0].cache),)
    assert asked.content == before.content
    found = world.see(name)
    assert (found["model"], found["effort"], found["system"]) == (OTHER, "high", "You are a pirate.")


def test_a_text_that_breaks_the_protocol_is_refused_like_in_a_round() -> None:
    world = World(BROKEN)
    name = world.start()
    world.replays.make()
    reply = world.see(name)["reply"]
    assert (reply["decision"]["accepted"], reply["raw"]) == (False, BROKEN)
    assert [one["code"] for one in reply["notices"]] == ["no_json_candidate"]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ModelRefused("the key is wrong", code="model_credentials"), "model_credentials", "the key is wrong"),
        (ModelOverloaded("an address within"), "model_overloaded", "The replay failed. Please try again."),
    ],
)
def test_a_failure_of_the_model_is_the_result_of_the_replay(
    error: Exception, code: str, message: str
) -> None:
    world = World(*[Fail(error=error)] * 3)  # type: ignore[arg-type]  # both are of ours
    name = world.start()
    assert world.replays.make() == "failed"
    found = world.see(name)
    assert (found["state"], found["code"], found["message"]) == ("failed", code, message)


def test_a_text_that_is_gone_from_the_record_ends_a_replay() -> None:
    world = World()
    artifacts: Any = world.conversation.ports.artifacts
    artifacts.objects.clear()
    name = world.start()
    world.replays.make()
    assert world.see(name)["code"] == "record_incomplete"
    assert not world.replays.model.requests


def test_an_event_that_is_delivered_twice_asks_the_model_once() -> None:
    world = World(answered("Once."))
    world.start()
    call = world.replays.started[0]
    assert [world.replays.make(call), world.replays.make(call)] == ["ended", ""]


@pytest.mark.parametrize("claimed", [True, False])
def test_a_replay_that_is_not_over_in_time_has_failed(claimed: bool) -> None:
    world = World()
    name = world.start()
    rows, call = world.replays.ports.replays, world.replays.started[0]
    queued = rows.get(LANE, USER, name)
    assert queued is not None
    if claimed:
        running = changed(queued, state="running", until="2026-01-01T00:00:00.000Z")
        rows.change(LANE, USER, running, was="queued")
    else:
        world.conversation.clock.pause(START_S)
    found = world.see(name)
    assert (found["state"], found["code"]) == ("failed", "replay_lost")
    assert world.replays.make(call) == ""


class SlowModel:
    """A model that takes a second for each piece of its text."""

    def __init__(self, model: ModelClient, clock: Any) -> None:
        self._model, self._clock = model, clock

    def stream(self, request: ModelRequest) -> Any:
        return SlowStream(self._model.stream(request), self._clock)


class SlowStream:
    def __init__(self, running: Any, clock: Any) -> None:
        self._running, self._clock = running, clock
        self.abort, self.completion = running.abort, running.completion

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Any:
        for piece in self._running:
            self._clock.pause(1)
            yield piece


class SeenRows(MemoryReplays):
    """Rows whose running texts are noted; one that is `lost` is deleted when its model writes."""

    def __init__(self, clock: Any, *, lost: bool = False) -> None:
        super().__init__(clock)
        self.texts: list[str] = []
        self._lost = lost

    def change(self, lane: Lane, user: str, replay: RoundReplay, *, was: ReplayState) -> bool:
        if replay.state == "running" and replay.text:
            self.texts.append(replay.text)
            if self._lost:
                self.drop(lane, user, replay.id)
        return super().change(lane, user, replay, was=was)


def slow_world(*, lost: bool = False) -> tuple[World, SeenRows]:
    world = World(answered("Slowly and in order."))
    clock = world.conversation.clock
    rows = SeenRows(clock, lost=lost)
    world.replays.ports = replace(world.replays.ports, replays=rows)
    world.services = replace(world.services, replaying=world.replays.ports)
    world.replays.client = SlowModel(world.replays.model, clock)
    return world, rows


def test_the_text_so_far_is_shown_while_the_model_writes() -> None:
    world, rows = slow_world()
    name = world.start()
    world.replays.make()
    assert len(rows.texts) > 1
    assert all(answered("Slowly and in order.").startswith(text) for text in rows.texts)
    assert world.see(name)["first_ms"] == 1000


def test_a_replay_whose_row_is_gone_ends_early_and_leaves_nothing() -> None:
    world, rows = slow_world(lost=True)
    name = world.start()
    assert world.replays.make() == ""
    assert len(rows.texts) == 1
    assert world.ask("GET", f"replays/{name}")[1]["code"] == "replay_not_found"


def test_three_replays_of_a_round_are_kept_for_an_hour() -> None:
    world = World()
    names = []
    for _ in range(REPLAYS_MAX + 1):
        names.append(world.start())
        world.conversation.clock.pause(1)
    other = world.start(4)
    status, kept = world.ask("GET", "replays?decided_n=2")
    assert (status, [one["replay"] for one in kept["items"]]) == (200, names[1:])
    assert kept["models"] == list(world.replays.ports.models)
    assert world.ask("GET", f"replays/{names[0]}")[0] == 404
    world.conversation.clock.pause(REPLAY_TTL_S)
    assert world.ask("GET", f"replays/{other}")[1]["code"] == "replay_not_found"


def test_the_same_key_is_the_same_replay() -> None:
    world = World(answered("Once."))
    first = world.start(key="k1")
    assert world.start(key="k1") == first
    assert world.start(key="k2") != first
    calls = [call for call in world.replays.started if call.replay == first]
    assert [world.replays.make(call) for call in calls] == ["ended", ""]
    status, body = world.ask("POST", "replays", {"decided_n": 2, "effort": "low"}, key="k1")
    assert (status, body["code"]) == (422, "idempotency_key_reused")


@pytest.mark.parametrize(
    ("wish", "refusal"),
    [
        ({"decided_n": 3}, (404, "round_not_found")),
        ({"decided_n": 99}, (404, "round_not_found")),
        ({"decided_n": 0}, (400, "bad_message")),
        ({"model": "gpt-unknown"}, (400, "unknown_model")),
        ({"effort": "huge"}, (400, "bad_message")),
        ({"system": "ä" * (SYSTEM_MAX_BYTES // 2 + 1)}, (413, "limit_exceeded")),
        ({"surprise": 1}, (400, "bad_message")),
    ],
)
def test_a_wish_that_cannot_be_is_refused_before_anything_is_stored(
    wish: dict[str, Any], refusal: tuple[int, str]
) -> None:
    world = World()
    assert world.refusal(**wish) == refusal
    assert not world.replays.started
    assert world.ask("GET", "replays?decided_n=2")[1]["items"] == []


@pytest.mark.parametrize(("inspect", "role"), [("none", "project_admin"), ("admin", "user")])
def test_replays_are_for_those_who_may_inspect(inspect: Inspect, role: str) -> None:
    world = World(inspect=inspect)
    for method, what, body in (
        ("POST", "replays", {"decided_n": 2}),
        ("GET", "replays?decided_n=2", None),
        ("GET", "replays/2-x", None),
    ):
        status, answer = world.ask(method, what, body, role=role)
        assert (status, answer["code"]) == (403, "not_inspectable")


@pytest.mark.parametrize("who", [{"user": "eve"}, {"tenant": "other"}])
def test_a_replay_of_a_foreign_conversation_is_not_found(who: dict[str, str]) -> None:
    world = World()
    name = world.start()
    assert world.ask("POST", "replays", {"decided_n": 2}, **who)[0] == 404
    assert world.ask("GET", f"replays/{name}", **who)[0] == 404


def test_a_replay_counts_against_the_rate_of_its_user() -> None:
    world = World(limits=ScopeLimits(user=Limits(messages_per_minute=2)))
    assert [world.refusal()[1] if n == 2 else world.start() for n in range(3)][-1] == "rate_limited"


def test_a_replay_is_charged_once_with_what_it_used() -> None:
    world = World(answered("Paid."))
    before = world.used()
    world.start()
    call = world.replays.started[0]
    world.replays.make(call)
    spent = sum(one.usage.prompt_tokens + one.usage.output_tokens for one in world.replays.ledger.beside)
    assert spent > 0
    world.replays.make(call)
    assert world.used() - before == spent
    world.conversation.model.add(answered("Next."))
    world.conversation.send("go on", id="m2")
    world.conversation.run()
    state = world.conversation.state
    assert world.used() == state.input_tokens + state.output_tokens + spent


def test_a_replay_beyond_the_budget_is_refused_and_one_that_fits_gives_back_the_rest() -> None:
    world = World(answered("Paid."))
    used = world.used()
    ports = world.conversation.ports
    ports.accounts.set_limits(SCOPES[0], Limits(tokens_day=used + 100_000), version=0, by="x", at="")
    world.start()
    world.replays.make()
    spent = world.used() - used
    assert 0 < spent < 20_000
    ports.accounts.set_limits(SCOPES[0], Limits(tokens_day=used + spent + 10), version=1, by="x", at="")
    name = world.start()
    assert world.replays.make() == "failed"
    assert world.see(name)["code"] == "limit_tokens"
    assert world.used() == used + spent
    ports.accounts.set_limits(SCOPES[0], Limits(tokens_day=used), version=2, by="x", at="")
    assert world.refusal() == (429, "limit_tokens")
    ports.accounts.set_limits(SCOPES[0], Limits(stopped="holidays"), version=3, by="x", at="")
    assert world.refusal() == (403, "stopped")


class DyingAccounts:
    """Accounts whose process dies at the second posting."""

    def __init__(self, accounts: Any) -> None:
        self._accounts, self._posted = accounts, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._accounts, name)

    def post(self, *args: Any) -> Any:
        self._posted += 1
        if self._posted > 1:
            raise SystemExit
        return self._accounts.post(*args)


def test_a_replay_whose_process_dies_stays_charged_with_the_most() -> None:
    world = World(answered("Lost."))
    used = world.used()
    ports = world.conversation.ports
    ports.accounts.set_limits(SCOPES[0], Limits(tokens_day=used + 100_000), version=0, by="x", at="")
    world.conversation.ports = replace(ports, accounts=DyingAccounts(ports.accounts))
    world.start()
    with pytest.raises(SystemExit):
        world.replays.make()
    assert world.used() - used > 20_000


def test_a_fork_replays_a_round_of_its_origin() -> None:
    world = World(answered("From the fork."))
    end = world.conversation.tail.n
    fork_conversation(
        world.conversation.ports, LANE, ForkPoint(kind="batch", at=str(end)), user=USER, conversation="c-2"
    )
    base = "/v1/conversations/c-2"
    status, body = world.ask("POST", "replays", {"decided_n": 2}, base=base)
    assert status == 202
    assert world.replays.make() == "ended"
    found = world.ask("GET", f"replays/{body['replay']}", base=base)[1]
    assert (found["equal"], found["reply"]["decision"]["final_answer"]) == (True, "From the fork.")
    assert world.replays.model.requests[0].system == world.conversation.model.requests[0].system


def test_the_rows_of_replays_go_with_their_conversation() -> None:
    world = World()
    world.start()
    erasure: Any = world.conversation.ports.erasure
    assert sum(erasure.erase_rows(LANE, husks_from="")) > 0
    assert world.replays.ports.replays.of_round(LANE, USER, 2) == []
