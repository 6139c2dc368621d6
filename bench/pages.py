"""Pages of the HTTP API: the list, a page of events and a whole conversation, beside the plain reads of their rows.

For CPU time the log is bytes in the memory twin, so that only our own code is measured; calls are those of the real
adapters on moto. Every answer is that of a process that has folded nothing before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from bench.budget import BUDGETS
from bench.conversation import LANE, converse, objects, stored
from bench.meter import Meter, Store, metered_store
from bench.row import MeasureError, Row
from bench.timing import cpu_ms, interleave
from stepline.adapters.aws.log import DynamoLog
from stepline.api.endpoint import Services
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import JSON, Request, Router
from stepline.bootstrap.loop_app import LoopApp
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.model.batch import decode_batch
from stepline.model.ids import make_lane
from stepline.ports.channel import Principal
from stepline.ports.log import Listing

Page: TypeAlias = tuple[str, str, Callable[[], int], Callable[[], int]]

BLOCKS = 5_000
FEW_BLOCKS = 300
CONVERSATIONS = 50
ROUNDS = 5
ROUTER = Router(ENDPOINTS)


def rows() -> list[Row]:
    """Return `page_cpu_ms_<page>` and `page_calls_<page>`."""
    conversation = converse(BLOCKS)
    with metered_store() as store:
        spent = [_row(*page) for page in Kept(conversation.ports).pages()]
        return spent + _calls(conversation, store)


def few_rows() -> list[Row]:
    """Return `page_calls_<page>_300`: those of a shorter conversation, which takes less time to store."""
    with metered_store() as store:
        return _calls(converse(FEW_BLOCKS), store, f"_{FEW_BLOCKS}")


def _calls(conversation: LoopApp, store: Store, suffix: str = "") -> list[Row]:
    return [_count(store.meter, suffix, page) for page in Kept(_copy(conversation, store)).pages()]


def _copy(conversation: LoopApp, store: Store) -> Ports:
    """Return ports with the conversation in a table and a bucket."""
    log = DynamoLog(store.table)
    for body in stored(conversation):
        log.put(LANE, decode_batch(body))
    for key, body in objects(conversation).items():
        store.artifacts.put(key, body, mime="application/octet-stream")
    return replace(conversation.ports, log=log, artifacts=store.artifacts)


class Kept:
    """A conversation, and its user's list."""

    def __init__(self, ports: Ports) -> None:
        """Take the conversation, and make a row for each of the user's conversations."""
        self._ports = ports
        tail = self._ports.log.tail(LANE)
        assert tail is not None
        self._owner = tail.state.owner
        for number in range(CONVERSATIONS):
            name = f"{LANE.conversation}-{number}"
            row = Listing(
                lane=make_lane(LANE.tenant, LANE.project, name),
                owner=self._owner,
                title=f"Of {number}",
                last_at=f"2026-11-24T05:00:{number:02d}.000Z",
                applied_n=1,
            )
            self._ports.log.project(row)
        self._url = f"/v1/conversations/{LANE.conversation}"
        self._first_n = self._ask("GET", f"{self._url}/events")["first_n"]

    def pages(self) -> tuple[Page, ...]:
        """Return each page: its name, what it is, the endpoint, and the plain read."""
        return (
            ("list", f"{CONVERSATIONS} rows", self.list, self.read_rows),
            ("events", "the last 20 turns", self.events, self.read_newest),
            ("fetch", "every turn, with its texts", self.fetch, self.read_all),
        )

    def list(self) -> int:
        """Return the rows of a page of the list."""
        return len(self._ask("GET", "/v1/conversations")["items"])

    def events(self) -> int:
        """Return the events of the newest page."""
        return len(self._ask("GET", f"{self._url}/events")["events"])

    def fetch(self) -> int:
        """Return the turns of the whole conversation."""
        path = f"/conversations/{LANE.tenant}/{LANE.project}/{LANE.conversation}/fetch"
        return len(self._ask("POST", path, {"materialize": True, "days": 3650})["turns"])

    def read_rows(self) -> int:
        """Return the same rows, as the log has them."""
        return len(self._ports.log.conversations(LANE.tenant, LANE.project, self._owner, most=CONVERSATIONS))

    def read_newest(self) -> int:
        """Return the batches from the page's first one on."""
        return len(self._ports.log.since(LANE, self._first_n - 1))

    def read_all(self) -> int:
        """Return the batches of the whole conversation."""
        return len(self._ports.log.since(LANE, 0))

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        who = Principal(tenant=LANE.tenant, project=LANE.project, user=self._owner, expires_at=4_000_000_000)
        carried: dict[str, Any] = {}
        if body is not None:
            carried = {"headers": {"content-type": JSON}, "body": json.dumps(body).encode()}
        services = Services(ports=self._ports, history=History())
        answer = ROUTER.answer(services, who, Request(method=method, path=path, **carried))
        if answer.status != 200:
            raise MeasureError(f"{method} {path}: {answer.code}")
        return json.loads(answer.body)


def _row(name: str, what: str, ours: Callable[[], int], read: Callable[[], int]) -> Row:
    answered, found = ours(), read()
    if not answered or not found:
        raise MeasureError(f"an empty page of {name}")
    spent = interleave({"ours": lambda: cpu_ms(ours), "read": lambda: cpu_ms(read)}, ROUNDS)
    return Row(
        metric=f"page_cpu_ms_{name}",
        value=spent["ours"],
        unit="ms CPU",
        peers={"the plain read": spent["read"]},
        note=f"{what}: {answered} of {found} rows or batches, in a conversation of {BLOCKS} blocks, and the answer as JSON",
    )


def _count(meter: Meter, suffix: str, page: Page) -> Row:
    name, what, ours, read = page
    meter.clear()
    ours()
    asked, metric = dict(meter.calls), f"page_calls_{name}{suffix}"
    meter.clear()
    read()
    return Row(
        metric=metric,
        value=sum(asked.values()),
        unit="calls",
        goal=BUDGETS[metric].aim,
        peers={"the plain query": meter.calls.total()},
        note=f"{what}, on moto: {', '.join(f'{call} {count}' for call, count in sorted(asked.items()))}",
    )
