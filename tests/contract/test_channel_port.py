import json
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

import pytest
from msgspec.structs import replace

from stepline.adapters.aws.publisher import GatewayPublisher
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import HEAD, Table, conversation_pk, key, socket_key, user_pk
from stepline.adapters.memory.channel import MemoryPublisher
from stepline.delivery.post_pace import is_over_limit
from stepline.errors import DependencyError, Gone, LimitError
from stepline.model.ids import Lane
from stepline.ports.channel import POST_MAX_BYTES, Principal, Publisher, Subscriptions
from tests.support.aws import create_table

FAR = 2**40
PRINCIPAL = Principal(tenant="acme", project="docs", user="ada", expires_at=FAR, role="project_admin")


@pytest.fixture
def subscriptions(backend) -> Subscriptions:
    return backend.subscriptions


@pytest.fixture
def connection() -> str:
    return f"{uuid.uuid4().hex[:12]}="


def test_a_connection_remembers_its_principal_until_it_ends(subscriptions, connection):
    assert subscriptions.principal(connection) is None
    subscriptions.connect(connection, PRINCIPAL)
    assert subscriptions.principal(connection) == PRINCIPAL
    subscriptions.disconnect(connection)
    assert subscriptions.principal(connection) is None


def test_a_listener_hears_of_its_lanes_and_of_no_other(subscriptions, lane, connection):
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    subscriptions.subscribe(lane, connection, FAR, "ada")
    assert subscriptions.listeners(lane) == [connection]
    assert subscriptions.listeners(other) == []


def test_a_lane_has_many_listeners_and_each_once(subscriptions, lane, connection):
    for name in ("b", "a", "b"):
        subscriptions.subscribe(lane, connection + name, FAR, "ada")
    assert subscriptions.listeners(lane) == [f"{connection}a", f"{connection}b"]


def test_a_dropped_subscription_leaves_the_others(subscriptions, lane, connection):
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    subscriptions.subscribe(lane, connection, FAR, "ada")
    subscriptions.subscribe(other, connection, FAR, "ada")
    subscriptions.subscribe(lane, f"{connection}2", FAR, "ada")
    subscriptions.drop(lane, connection)
    subscriptions.drop(lane, connection)
    assert subscriptions.listeners(lane) == [f"{connection}2"]
    assert subscriptions.listeners(other) == [connection]


def test_a_disconnect_ends_every_subscription_of_the_connection(subscriptions, lane, connection):
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    subscriptions.connect(connection, PRINCIPAL)
    subscriptions.subscribe(lane, connection, FAR, "ada")
    subscriptions.subscribe(other, connection, FAR, "ada")
    subscriptions.subscribe(lane, f"{connection}2", FAR, "ada")
    subscriptions.disconnect(connection)
    assert subscriptions.listeners(lane) == [f"{connection}2"]
    assert subscriptions.listeners(other) == []
    subscriptions.disconnect(connection)


def test_a_users_connections_are_those_that_listen_to_anything(subscriptions, lane, connection):
    for name, user in (("a", "ada"), ("b", "ada"), ("c", "bob"), ("idle", "ada")):
        subscriptions.connect(connection + name, replace(PRINCIPAL, user=user))
    other = replace(lane, tenant=PRINCIPAL.tenant, project=PRINCIPAL.project)
    subscriptions.subscribe(other, f"{connection}a", FAR, "ada")
    subscriptions.watch(f"{connection}a", PRINCIPAL)
    subscriptions.watch(f"{connection}b", PRINCIPAL)
    subscriptions.watch(f"{connection}c", replace(PRINCIPAL, user="bob"))
    found = subscriptions.connections(PRINCIPAL.tenant, PRINCIPAL.project, "ada")
    assert [name for name in found if name.startswith(connection)] == [f"{connection}a", f"{connection}b"]


def test_connections_and_subscriptions_expire_after_two_hours(backend, lane, connection):
    backend.subscriptions.connect(connection, PRINCIPAL)
    backend.subscriptions.subscribe(lane, connection, FAR, "ada")
    backend.clock.pause(3600)
    backend.subscriptions.subscribe(lane, f"{connection}2", FAR, "ada")
    backend.clock.pause(3601)
    assert backend.subscriptions.principal(connection) is None
    assert backend.subscriptions.listeners(lane) == [f"{connection}2"]


def test_subscribing_again_renews_a_subscription(backend, lane, connection):
    backend.subscriptions.subscribe(lane, connection, FAR, "ada")
    backend.clock.pause(7000)
    backend.subscriptions.subscribe(lane, connection, FAR, "ada")
    backend.clock.pause(7000)
    assert backend.subscriptions.listeners(lane) == [connection]


def test_a_connection_hears_nothing_once_its_token_has_expired(backend, lane, connection):
    now_s = int(backend.clock.now().timestamp())
    backend.subscriptions.connect(connection, replace(PRINCIPAL, expires_at=now_s + 600))
    backend.subscriptions.subscribe(lane, connection, now_s + 600, "ada")
    backend.clock.pause(599)
    assert backend.subscriptions.listeners(lane) == [connection]
    backend.clock.pause(2)
    assert backend.subscriptions.listeners(lane) == []
    assert backend.subscriptions.principal(connection) is not None


@pytest.mark.parametrize("late_s", [0, 900])
def test_a_renewed_connection_hears_all_it_listens_to_for_as_long_as_the_new_token(
    backend, lane, connection, late_s
):
    now_s = int(backend.clock.now().timestamp())
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    backend.subscriptions.connect(connection, replace(PRINCIPAL, expires_at=now_s + 600))
    for heard in (lane, other):
        backend.subscriptions.subscribe(heard, connection, now_s + 600, "ada")
    backend.subscriptions.subscribe(lane, f"{connection}2", now_s + 600, "ada")
    backend.clock.pause(late_s)
    fresh = replace(PRINCIPAL, expires_at=now_s + 1800)
    backend.subscriptions.renew(connection, fresh)
    assert backend.subscriptions.principal(connection) == fresh
    backend.clock.pause(1700 - late_s)
    assert backend.subscriptions.listeners(lane) == backend.subscriptions.listeners(other) == [connection]
    backend.clock.pause(101)
    assert backend.subscriptions.listeners(lane) == []


def test_a_renewal_adds_no_subscription_to_a_conversation(backend, lane, connection):
    backend.subscriptions.connect(connection, PRINCIPAL)
    backend.subscriptions.subscribe(lane, connection, FAR, "ada")
    backend.subscriptions.drop(lane, connection)
    backend.subscriptions.renew(connection, PRINCIPAL)
    assert backend.subscriptions.listeners(lane) == []


def test_expired_rows_are_not_shown_though_they_are_still_stored(aws, lane, connection):
    aws.subscriptions.connect(connection, PRINCIPAL)
    aws.subscriptions.subscribe(lane, connection, FAR, "ada")
    aws.clock.pause(7201)
    assert aws.subscriptions.principal(connection) is None
    assert aws.subscriptions.listeners(lane) == []
    assert aws.table.get(socket_key(connection), HEAD, consistent=True) is not None
    assert aws.table.get(conversation_pk(lane), socket_key(connection), consistent=True) is not None


@pytest.mark.parametrize("has_dropped", [False, True])
def test_a_connection_that_ended_leaves_no_row(aws, lane, connection, has_dropped):
    aws.subscriptions.connect(connection, PRINCIPAL)
    aws.subscriptions.subscribe(lane, connection, FAR, "ada")
    if has_dropped:
        aws.subscriptions.drop(lane, connection)
        rows = aws.table.query("pk = :pk", {":pk": {"S": socket_key(connection)}}, ConsistentRead=True)
        assert [row["sk"]["S"] for row in rows] == [HEAD]
    aws.subscriptions.disconnect(connection)
    rows = aws.table.query("pk = :pk", {":pk": {"S": socket_key(connection)}}, ConsistentRead=True)
    assert list(rows) == []
    assert aws.table.get(conversation_pk(lane), socket_key(connection), consistent=True) is None


@pytest.fixture
def principal(lane) -> Principal:
    """A user of the lane's tenant and project, of whom no other test has heard."""
    return Principal(tenant=lane.tenant, project=lane.project, user=uuid.uuid4().hex, expires_at=FAR)


ABROAD = [{"tenant": "umbrella"}, {"project": "sales"}, {"user": "#"}, {"user": "a"}]


def test_a_watcher_is_in_the_audience_of_all_its_users_conversations(
    subscriptions, lane, principal, connection
):
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    subscriptions.watch(f"{connection}w", principal)
    subscriptions.watch(f"{connection}b", principal)
    subscriptions.subscribe(lane, f"{connection}b", FAR, principal.user)
    subscriptions.subscribe(lane, f"{connection}a", FAR, principal.user)
    watchers = [f"{connection}b", f"{connection}w"]
    assert subscriptions.audience(lane, principal.user) == ([f"{connection}a", f"{connection}b"], watchers)
    assert subscriptions.audience(other, principal.user) == ([], watchers)
    assert subscriptions.listeners(lane) == [f"{connection}a", f"{connection}b"]
    assert subscriptions.listeners(other) == []


@pytest.mark.parametrize("who", ABROAD, ids=str)
def test_a_watcher_gets_nothing_of_another_tenant_project_or_user(
    subscriptions, lane, principal, connection, who
):
    longer = {"user": principal.user + who["user"]} if "user" in who else who
    subscriptions.watch(connection, replace(principal, **longer))
    assert subscriptions.audience(lane, principal.user) == ([], [])


def test_the_feed_ends_with_its_connection_its_token_or_two_hours(backend, lane, principal):
    now_s = int(backend.clock.now().timestamp())
    names = [uuid.uuid4().hex for _ in range(4)]
    gone, short, renewed, long = names
    ends = {gone: FAR, short: now_s + 600, renewed: now_s + 600, long: FAR}
    for name, ends_at in ends.items():
        backend.subscriptions.connect(name, replace(principal, expires_at=ends_at))
        backend.subscriptions.watch(name, replace(principal, expires_at=ends_at))
    backend.subscriptions.disconnect(gone)
    backend.subscriptions.renew(renewed, replace(principal, expires_at=now_s + 1800))
    for pause_s, there in ((0, [short, renewed, long]), (700, [renewed, long]), (1200, [long]), (5400, [])):
        backend.clock.pause(pause_s)
        assert backend.subscriptions.audience(lane, principal.user).watchers == sorted(there)


def test_a_renewal_makes_no_connection_a_watcher(subscriptions, lane, principal, connection):
    subscriptions.connect(connection, principal)
    subscriptions.subscribe(lane, connection, FAR, principal.user)
    subscriptions.renew(connection, principal)
    assert subscriptions.audience(lane, principal.user) == ([connection], [])


def test_dropping_ends_the_feed_of_the_user_that_is_named_alone(subscriptions, lane, principal, connection):
    subscriptions.watch(connection, principal)
    subscriptions.drop(lane, connection)
    subscriptions.drop(lane, connection, watcher="eve")
    assert subscriptions.audience(lane, principal.user).watchers == [connection]
    subscriptions.subscribe(lane, connection, FAR, principal.user)
    subscriptions.drop(lane, connection, watcher=principal.user)
    assert subscriptions.audience(lane, principal.user) == ([], [])


def test_the_audience_costs_the_one_query_that_the_listeners_do(aws, lane):
    calls: list[str] = []
    table = Table(aws.table.name)
    table.client.meta.events.register("before-call.dynamodb", lambda model, **_: calls.append(model.name))
    subscriptions = DynamoSubscriptions(table, aws.clock)
    subscriptions.listeners(lane)
    assert calls == ["Query"]
    subscriptions.audience(lane, "ada")
    assert calls == ["Query", "Query"]


def test_a_subscription_of_an_earlier_release_works_and_can_be_dropped(aws, lane, connection):
    ends_at = {"expires_at": {"N": str(FAR)}}
    aws.table.put({**key(conversation_pk(lane), socket_key(connection)), **ends_at})
    assert aws.subscriptions.listeners(lane) == [connection]
    aws.subscriptions.drop(lane, connection)
    assert aws.subscriptions.listeners(lane) == []


def test_a_restored_table_knows_no_earlier_connection_and_posts_to_none(aws, lane, principal, connection):
    aws.subscriptions.connect(connection, principal)
    aws.subscriptions.subscribe(lane, connection, FAR, principal.user)
    aws.subscriptions.watch(connection, principal)
    restored = Table(f"{aws.name}-restored")
    create_table(restored.name)
    for row in restored.client.scan(TableName=aws.name)["Items"]:
        restored.put(row)
    subscriptions = DynamoSubscriptions(restored, aws.clock)
    assert subscriptions.principal(connection) is None
    assert subscriptions.listeners(lane) == []
    assert subscriptions.audience(lane, principal.user) == ([], [])
    subscriptions.connect(connection, principal)
    subscriptions.subscribe(lane, connection, FAR, principal.user)
    assert subscriptions.principal(connection) == principal
    assert subscriptions.listeners(lane) == [connection]


def test_a_watcher_that_ended_leaves_no_row(aws, lane, principal, connection):
    aws.subscriptions.connect(connection, principal)
    aws.subscriptions.watch(connection, principal)
    aws.subscriptions.subscribe(lane, connection, FAR, principal.user)
    aws.subscriptions.disconnect(connection)
    for pk in (
        socket_key(connection),
        user_pk(lane.tenant, lane.project, principal.user),
        conversation_pk(lane),
    ):
        assert list(aws.table.query("pk = :pk", {":pk": {"S": pk}}, ConsistentRead=True)) == []


ERRORS = {410: "GoneException", 413: "PayloadTooLargeException", 429: "LimitExceededException"}


class Gateway:
    """The callback of a websocket API as API Gateway answers it, on loopback."""

    def __init__(self) -> None:
        self.inboxes: dict[str, list[bytes]] = {}
        self.busy: set[str] = set()
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                connection = unquote(self.path.removeprefix("/live/@connections/"))
                status = gateway.take(connection, self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(status)
                body = b"" if status == 200 else json.dumps({"message": "…"}).encode()
                if status != 200:
                    self.send_header("x-amzn-ErrorType", ERRORS[status])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_DELETE(self) -> None:
                found = gateway.inboxes.pop(unquote(self.path.removeprefix("/live/@connections/")), None)
                self.send_response(410 if found is None else 204)
                if found is None:
                    self.send_header("x-amzn-ErrorType", ERRORS[410])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/live"

    def take(self, connection: str, frame: bytes) -> int:
        if connection not in self.inboxes:
            return 410
        if connection in self.busy:
            return 429
        if len(frame) > POST_MAX_BYTES:
            return 413
        self.inboxes[connection].append(frame)
        return 200

    def open(self, connection: str) -> list[bytes]:
        return self.inboxes.setdefault(connection, [])

    def close(self, connection: str) -> None:
        del self.inboxes[connection]


@pytest.fixture
def gateway(monkeypatch) -> Iterator[Gateway]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    gateway = Gateway()
    thread = Thread(target=gateway.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield gateway
    gateway.server.shutdown()
    gateway.server.server_close()
    thread.join()


@pytest.fixture(params=["memory", "gateway"])
def posting(request: pytest.FixtureRequest) -> tuple[Publisher, MemoryPublisher | Gateway]:
    if request.param == "memory":
        publisher = MemoryPublisher()
        return publisher, publisher
    gateway = request.getfixturevalue("gateway")
    return GatewayPublisher(gateway.endpoint), gateway


def test_frames_arrive_in_order_and_byte_for_byte(posting, connection):
    publisher, sockets = posting
    inbox = sockets.open(connection)
    frames = [f'{{"n":{n},"text":"grüß\\n"}}'.encode() for n in range(5)]
    for frame in frames:
        publisher.post(connection, frame)
    assert inbox == frames


def test_a_connection_that_never_was_or_is_no_more_is_gone(posting, connection):
    publisher, sockets = posting
    with pytest.raises(Gone) as caught:
        publisher.post(connection, b"{}")
    assert caught.value.reason == "gone"
    sockets.open(connection)
    publisher.post(connection, b"{}")
    sockets.close(connection)
    with pytest.raises(Gone):
        publisher.post(connection, b"{}")


def test_a_connection_is_closed_once_and_for_all(posting, connection):
    publisher, sockets = posting
    sockets.open(connection)
    for _ in range(2):
        publisher.close(connection)
    with pytest.raises(Gone):
        publisher.post(connection, b"{}")


def test_a_frame_beyond_the_gateways_limit_is_refused(posting, connection):
    publisher, sockets = posting
    inbox = sockets.open(connection)
    publisher.post(connection, b"x" * POST_MAX_BYTES)
    with pytest.raises(LimitError) as caught:
        publisher.post(connection, b"x" * (POST_MAX_BYTES + 1))
    assert caught.value.reason == "limit_exceeded"
    assert len(inbox) == 1


def test_a_connection_that_cannot_take_more_now_is_a_failed_dependency(gateway, connection):
    gateway.open(connection)
    gateway.busy.add(connection)
    with pytest.raises(DependencyError) as caught:
        GatewayPublisher(gateway.endpoint).post(connection, b"{}")
    assert is_over_limit(caught.value)


def test_a_gateway_that_is_not_there_is_a_failed_dependency(gateway, connection):
    gateway.server.server_close()
    with pytest.raises(DependencyError) as caught:
        GatewayPublisher(gateway.endpoint).post(connection, b"{}")
    assert not is_over_limit(caught.value)
