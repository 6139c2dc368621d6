"""An endpoint of the HTTP API: a row of the table that answers requests and describes them.

Source: docs/concepts/http-api.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from http import HTTPStatus
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from stepline.errors import NotFoundError
from stepline.ingress.erase_user import ErasurePorts
from stepline.ingress.upload import UploadPorts
from stepline.log.bindings import Ports
from stepline.log.journal import Journal
from stepline.log.owned_tail import owned_tail
from stepline.log.timeline_cache import History
from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.ids import Lane, make_lane
from stepline.model.tenancy.request_rates import RequestKind
from stepline.ports.channel import Inspect, Principal
from stepline.timeline.fold import Timeline

if TYPE_CHECKING:
    from stepline.inspection.replay_request import ReplayPorts  # readers of streams replay nothing

BODY_MAX_BYTES: Final = 256 * 1024
"""The largest body of an endpoint, by default."""

Query_co = TypeVar("Query_co", covariant=True)
Body_co = TypeVar("Body_co", covariant=True)

Answer_co = TypeVar("Answer_co", covariant=True)

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


class StrictInput(Value, forbid_unknown_fields=True):
    """A query or body that refuses unknown fields."""


class Nothing(StrictInput):
    """A query without parameters."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """The dependencies of the endpoints: the ports, the conversations folded so far, addresses and rules of this stage.

    Without `uploads` the stage accepts no uploads, without `erasing` nothing is deleted, without `replaying` no round is
    replayed. A reader of a stream waits for
    `wait_s` at most; 0: readers do not wait here.
    """

    ports: Ports
    history: History
    socket_url: str = ""
    inspect: Inspect = "admin"
    uploads: UploadPorts | None = None
    erasing: ErasurePorts | None = None
    replaying: ReplayPorts | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Call(Generic[Query_co, Body_co]):
    """A decoded request: its caller, the values of its path, its query and its body.

    `idempotency_key` is the header's, or "". Endpoints that create an object derive its id from the key, so that a
    repeated request finds the object of the first one. `known` is the header If-None-Match, or "".
    """

    services: Services
    principal: Principal
    path: Mapping[str, str]
    query: Query_co
    body: Body_co
    idempotency_key: str = ""
    known: str = ""

    @property
    def ports(self) -> Ports:
        """The ports of the deployment."""
        return self.services.ports

    def uploads(self) -> UploadPorts:
        """Return the ports of uploads. Raises NotFoundError if the stage accepts no uploads."""
        if self.services.uploads is None:
            raise NotFoundError("there is nothing here")
        return self.services.uploads

    def replaying(self) -> ReplayPorts:
        """Return the ports of replays. Raises NotFoundError if the stage replays no rounds."""
        if self.services.replaying is None:
            raise NotFoundError("there is nothing here")
        return self.services.replaying

    def lane(self) -> Lane:
        """Return the lane of the conversation in the path; a tenant or project in it must be the caller's own.

        Raises NotFoundError.
        """
        here = self.principal
        if self.path.get("tenant", here.tenant) != here.tenant:
            raise NotFoundError("no such conversation")
        if self.path.get("project", here.project) != here.project:
            raise NotFoundError("no such conversation")
        return make_lane(here.tenant, here.project, self.path["conversation"])

    def tail(self) -> tuple[Journal, Batch]:
        """Return the caller's conversation and its newest batch.

        Raises NotFoundError: `conversation_deleted`; or `not_found`, it is another user's or does not exist.
        """
        journal = Journal(self.ports, self.lane(), "api")
        tail = owned_tail(journal, self.principal.user)
        if self.ports.ledger.lane is None:  # a call that put a batch has also named its turn
            self.ports.ledger.works_for(journal.lane)
        return journal, tail

    def timeline(self) -> Timeline:
        """Return the folded conversation of the caller. Raises NotFoundError."""
        journal, tail = self.tail()
        return self.services.history.load(journal, segment=tail.state.segment, consistent=True)


@dataclass(frozen=True, kw_only=True)
class Redirect:
    """A response that sends the client to a short-lived address. Secret."""

    url: str


@dataclass(frozen=True, kw_only=True)
class StreamPart(Generic[Answer_co]):
    """A response with a part of a stream: an array of `messages`, each as JSON; None is no body."""

    status: HTTPStatus
    headers: Mapping[str, str]
    messages: Sequence[bytes] | None = None


@dataclass(frozen=True)
class Endpoint:
    """The handler of one method of one path.

    `path` is a template, `/v1/conversations/{conversation}`; one name may be `{name+}`, which matches several parts.
    The types of `run` define the rest: `Call[ListQuery, Title]` has a query that is read from texts, and a body that
    is read from JSON of at most `body_bytes`; its return value is the answer, which may be empty, a `Redirect`, or a
    `StreamPart` of messages of a type.
    The endpoint `counts` as a request of this kind; without one, as a read or a change by its method. One that
    `founds` accepts a new name, to which no other answer leads. `codes` are the codes of refusals in addition to
    those of every endpoint (`router.COMMON`), by status. The first line of the docstring of `run` is the summary.
    `gives` are the names that its answer has values for, each by its JSON pointer: names in paths of other endpoints,
    and parameters of its own query, for the next page.
    """

    method: Method
    path: str
    run: Callable[[Call[Any, Any]], Any]
    _: KW_ONLY
    status: HTTPStatus = HTTPStatus.OK
    body_bytes: int = BODY_MAX_BYTES
    founds: bool = False
    counts: RequestKind | None = None
    codes: Mapping[HTTPStatus, tuple[str, ...]] = field(default_factory=dict)
    gives: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _types(self) -> tuple[Any, Any, Any]:
        """The query, the body and the answer of `run`; read on demand, since a call needs those of one row."""
        hints = get_type_hints(self.run)
        return (*get_args(hints["call"]), hints["return"])

    @property
    def query(self) -> type[Value]:
        """The type of the query."""
        query: type[Value] = self._types[0]
        return query

    @property
    def body(self) -> type[Value] | None:
        """The type of the body; None for an endpoint without one."""
        return None if self._types[1] is NoneType else self._types[1]

    @property
    def answer(self) -> Any:
        """The type of the answer; None for an empty one and for a redirect."""
        given = get_args(self._types[2])[0] if self.streams else self._types[2]
        return None if given in (NoneType, Redirect) else given

    @property
    def redirects(self) -> bool:
        """True if the answer is a redirect."""
        return self._types[2] is Redirect

    @property
    def streams(self) -> bool:
        """True if the answer is a part of a stream."""
        return get_origin(self._types[2]) is StreamPart

    @property
    def kind(self) -> RequestKind:
        """The kind of its requests, which determines their rate."""
        return self.counts or ("reads" if self.method in ("GET", "HEAD") else "changes")


OWNED: Final[Mapping[HTTPStatus, tuple[str, ...]]] = {
    HTTPStatus.NOT_FOUND: ("not_found", "conversation_deleted"),
    HTTPStatus.CONFLICT: ("import_unfinished",),
}
"""The refusals of an endpoint of one conversation: another user's is not found, an unfinished import is incomplete."""
