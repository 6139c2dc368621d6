"""A good request to every endpoint of the table, and who may make it: a new endpoint has to be added here."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stepline.api.endpoint import Endpoint
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import ApiResponse
from stepline.bootstrap.memory_wiring import erasure_in_memory
from stepline.ingress.erase_user import ErasurePorts
from stepline.inspection.replay_request import ReplayPorts
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.ids import Lane
from stepline.ports.channel import Principal, Role
from tests.security.strangers import OTHERS, Stranger
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called
from tests.support.replays import replay_ports

CSV: Final = b"1,2\n"
SENT: Final = Attachment(
    filename="b.csv", mime="text/csv", size_bytes=len(CSV), sha256=hashlib.sha256(CSV).hexdigest()
)
FILE: Final = {"filename": "a.txt", "size_bytes": 3, "sha256": "0" * 64}
DOCUMENT: Final = {
    "turn_id": "turn_20200101T000000_abcdef",
    "ts": "2020-01-01T00:00:00.000Z",
    "end_ts": "2020-01-01T00:01:00.000Z",
    "blocks": [
        {
            "type": "user.prompt",
            "author": "user",
            "ts": "2020-01-01T00:00:00.000Z",
            "turn_id": "turn_20200101T000000_abcdef",
            "path": "ar:turn_20200101T000000_abcdef.user.prompt",
            "text": "question",
        },
        {
            "type": "assistant.completion",
            "author": "assistant",
            "ts": "2020-01-01T00:01:00.000Z",
            "turn_id": "turn_20200101T000000_abcdef",
            "path": "ar:turn_20200101T000000_abcdef.assistant.completion",
            "text": "answer",
        },
    ],
}
"""A turn of a conversation that is to be imported."""
WRITTEN: Final = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}


@dataclass(frozen=True, kw_only=True)
class Names:
    """All names that a request can have for the owner's resources; by default well-formed names of absent ones."""

    tenant: str = LANE.tenant
    project: str = LANE.project
    user: str = USER
    conversation: str = "nobody-has-said-anything-here"
    turn: str = "turn_20200101T000000_abcdef"
    n: int = 10**11
    upload: str = f"up_{'0' * 32}"
    file: str = "fi:turn_20200101T000000_abcdef.outputs/a.md"
    rn: str = (
        "ef:acme:support:chatbot:file:ada:nobody-has-said-anything-here"
        ":turn_20200101T000000_abcdef:artifact:outputs/a.md"
    )
    replay: str = "2-0"
    kind: str = "outputs"
    disposition: str = "download"


May = Callable[[Principal, Names], bool]
"""Returns True if a caller may use the resources of these names; a conversation, its turns and its files are its own."""


def no_one(_who: Principal, _it: Names) -> bool:
    return False


def owner(who: Principal, it: Names) -> bool:
    return (who.tenant, who.project, who.user) == (it.tenant, it.project, it.user)


def reviewer(who: Principal, it: Names) -> bool:
    """An admin at the place."""
    return who.is_admin and (who.tenant, who.project) == (it.tenant, it.project)


def admin_of_project(who: Principal, it: Names) -> bool:
    """An admin of the project, or of its tenant from any other one."""
    return who.tenant == it.tenant and (who.role == "tenant_admin" or reviewer(who, it))


def admin_of_tenant(who: Principal, it: Names) -> bool:
    return who.tenant == it.tenant and who.role == "tenant_admin"


class Row(NamedTuple):
    """A good request, made of the names of its resources, and the callers that may make it for the owner's.

    `after` is the endpoint of an earlier request, without which there is no resource.

    `own`: every user of the project gets their own resources. `next` is the path of a cursor in the answer, for the query's
    `after`. `founds`: it creates an absent resource, and is refused with the code `taken` for an existing one. `destroys`:
    its resource is gone afterwards.
    """

    may: May
    body: Callable[[Names], dict[str, Any]] = lambda _: {}
    query: Callable[[Names], dict[str, str]] = lambda _: {}
    own: bool = False
    next: str = ""
    founds: bool = False
    taken: str = ""
    destroys: bool = False
    after: str = ""

    @property
    def spoils(self) -> bool:
        """The request needs a separate world."""
        return self.destroys or bool(self.after) or bool(self.taken)


OWNED: Final = Row(owner)
OWN: Final = Row(no_one, own=True)
PERIOD: Final = {"from": "2026-01-01", "to": "2026-01-31"}

ROWS: Final[dict[str, Row]] = {
    "read_description": OWN,
    "make_ticket": OWN,
    "list_all": Row(no_one, own=True, query=lambda _: {"limit": "1"}, next="next"),
    "read_conversation": OWNED,
    "rename_conversation": Row(owner, body=lambda _: {"title": "Mine"}),
    "read_events": OWNED,
    "mark_read": Row(owner, body=lambda _: {"n": 1}),
    "make_fork": Row(
        owner,
        body=lambda _: {"conversation": "c-fork", "point": {"kind": "batch", "at": "1"}},
    ),
    "list_branches": OWNED,
    "list_forks": OWNED,
    "list_recent": OWN,
    "fetch_named": Row(owner, body=lambda it: {"conversation_id": it.conversation}),
    "read_status": OWNED,
    "read_details": OWNED,
    "fetch_turns": Row(owner, body=lambda it: {"materialize": True, "turn_ids": [it.turn]}),
    "read_rated": Row(owner, body=lambda it: {"turn_ids": [it.turn]}),
    "search": Row(
        owner, query=lambda it: {"q": "question", "conversation": it.conversation, "limit": "1"}, next="next"
    ),
    "search_project": Row(
        owner,
        body=lambda it: {"query": "question", "scope": "conversation", "conversation_id": it.conversation},
    ),
    "list_conversation_rounds": OWNED,
    "get_request": OWNED,
    "compare_requests": Row(owner, query=lambda it: {"to": str(it.n)}),
    "get_reply": OWNED,
    "replay_a_round": Row(owner, body=lambda it: {"decided_n": it.n}),
    "list_round_replays": Row(owner, query=lambda it: {"decided_n": str(it.n)}),
    "get_replay": OWNED,
    "get_log": OWNED,
    "get_blocks": Row(owner, query=lambda it: {"path": it.file}),
    "get_receipts": OWNED,
    "list_effects": Row(owner, query=lambda _: {"kind": "batch", "at": "1"}),
    "export": OWNED,
    "rate_turn": Row(owner, body=lambda _: {"reaction": "ok"}),
    "rate_turn_by_machine": Row(
        reviewer, body=lambda _: {"reaction": "ok", "text": "Checked.", "confidence": 0.9}
    ),
    "read_rates": Row(reviewer, own=True, query=lambda _: PERIOD),
    "give_feedback": Row(owner, body=lambda _: {"reaction": "ok"}),
    "list_feedback": Row(
        admin_of_project,
        own=True,
        body=lambda _: {"start": PERIOD["from"], "end": PERIOD["to"], "limit": 1, "include_turns": True},
    ),
    "begin_upload": Row(owner, body=lambda _: FILE, founds=True),
    "get_upload": OWNED,
    "move_in": Row(owner, body=lambda _: {"documents": [DOCUMENT]}, founds=True, taken="conversation_exists"),
    "list_files": Row(owner, query=lambda it: {"turn": it.turn}),
    "create_link": Row(owner, body=lambda it: {"path": it.file}),
    "read_resource": Row(owner, body=lambda it: {"rn": it.rn}),
    "open_attachment": OWNED,
    "open_produced": OWNED,
    "read_limits": Row(admin_of_project, own=True),
    "read_tenant_limits": Row(admin_of_tenant),
    "write_tenant_limits": Row(admin_of_tenant, body=lambda _: {"usd_day": 5.0}),
    "read_project_limits": Row(admin_of_project),
    "write_project_limits": Row(admin_of_project, body=lambda _: {"turns_at_once": 9}),
    "read_user_limits": Row(admin_of_project),
    "write_user_limits": Row(admin_of_project, body=lambda _: {"tokens_day": 10**6}),
    "delete_conversation": Row(owner, destroys=True),
    "read_erasure": Row(owner, after="delete_conversation"),
    "erase_me": Row(no_one, own=True, destroys=True),
    "read_my_erasure": Row(no_one, own=True, after="erase_me"),
    "export_me": Row(no_one, own=True, next="next"),
    "erase_user": Row(admin_of_project, destroys=True),
    "read_stream": OWNED,
    "find_end": OWNED,
    "read_user_erasure": Row(admin_of_project, after="erase_user"),
}
TABLE: Final = {endpoint.run.__name__: endpoint for endpoint in ENDPOINTS}


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def row_of(endpoint: Endpoint) -> Row:
    return ROWS[endpoint.run.__name__]


def values(endpoint: Endpoint, it: Names) -> dict[str, str]:
    """Return the values of the names in an endpoint's path."""
    path = SENT.filename if "/attachment/" in endpoint.path else "a.md"
    return {one: str(getattr(it, one, "")) for one in Names.__dataclass_fields__} | {
        "owner": it.user,
        "path": path,
    }


def ask(caller: Caller, endpoint: Endpoint, it: Names, **query: str) -> ApiResponse:
    """Make the good request of an endpoint about what has these names."""
    row, known = row_of(endpoint), values(endpoint, it)
    path = re.sub(r"\{([a-z_]+)\+?\}", lambda found: known[found[1]], endpoint.path)
    body = row.body(it) if endpoint.body else None
    return caller.ask(endpoint.method, path, body, **{**row.query(it), **query})


class World(NamedTuple):
    """Conversations in one stage, and the names of what the owner has in hers."""

    conversation: Conversation
    names: Names
    erasing: ErasurePorts | None
    replaying: ReplayPorts

    def caller(self, who: Stranger) -> Caller:
        """Return a caller of this stage."""
        caller = Caller(self.conversation.ports, **who._asdict())
        caller.services = dataclasses.replace(caller.services, erasing=self.erasing, replaying=self.replaying)
        return caller

    def prepare(self, endpoint: Endpoint, role: Role = "tenant_admin") -> None:
        """Let the owner make the request that another one needs first."""
        if after := row_of(endpoint).after:
            ask(self.caller(Stranger(role=role)), TABLE[after], self.names)


def make_world(*, own: str = "own", spoken: bool = True) -> World:
    """Let every other user hold a conversation named `own`, and the owner two, unless she has not `spoken`."""
    script = [text for _ in range(8) for text in (called("react.write", WRITTEN), answered("One."))]
    conversation = Conversation(*script)
    ports = conversation.ports
    for other in OTHERS:
        place = {"tenant": LANE.tenant, "project": LANE.project, **other}
        lane = Lane(tenant=place["tenant"], project=place["project"], conversation=own)
        if lane != LANE:
            conversation.send("question", id="own", user=other.get("user", USER), lane=lane)
            conversation.run()
    world = World(
        conversation,
        Names(conversation=LANE.conversation),
        erasure_in_memory(ports),
        replay_ports(ports),
    )
    if not spoken:
        return world
    ports.artifacts.put(attachment_key(LANE, SENT.sha256), CSV, mime=SENT.mime)
    conversation.send("question", attachments=(SENT,))
    conversation.run()
    conversation.send("question", id="m2", lane=replace(LANE, conversation="c-2"))
    conversation.run()
    return world._replace(names=_names(world.caller(Stranger())))


def _names(caller: Caller) -> Names:
    """Return the names of the owner's conversation, as she reads them."""
    place = f"/v1/conversations/{LANE.conversation}"
    turn = caller.get(f"{place}/timeline")["turns"][0]
    written = next(one for one in caller.get(f"{place}/files")["items"] if one["filename"] == "a.md")
    caller.ask("PUT", f"{place}/turns/{turn['turn_id']}/feedback", {"reaction": "ok", "text": "question"})
    return Names(
        conversation=LANE.conversation,
        turn=turn["turn_id"],
        n=turn["rounds"][0]["decided_n"],
        upload=caller.post(f"{place}/uploads", FILE)["upload"],
        file=written["logical_path"],
        rn=written["rn"],
        # Of another round: each round keeps only its newest replays.
        replay=caller.post(f"{place}/replays", {"decided_n": turn["rounds"][1]["decided_n"]})["replay"],
    )
