"""Decisions of the model in a round, approval rules and verdicts, notices, the modes for several actions, and the request."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.block import Body
from stepline.model.version import ContextLayout

ActionName: TypeAlias = Literal["call_tool", "complete", "exit"]

ApprovalRule: TypeAlias = Literal["always", "never", "first_use"]
"""When a call needs a person: each time, not at all, or until one was approved in the conversation."""

ApprovalVerdict: TypeAlias = Literal["approved", "edited", "denied", "expired", "withdrawn"]
"""The answer to a request for an approval; `expired` came too late, and a steer withdraws the request."""

LastingEffect: TypeAlias = Literal["keyed", "once"]
"""The effect class of a call that is not `pure`."""

CallStatus: TypeAlias = Literal["ok", "error", "unverified", "running"]
"""The status of a call: that of its result, or `running`."""

Reaction: TypeAlias = Literal["ok", "not_ok", "neutral"]
Origin: TypeAlias = Literal["user", "machine"]
"""Who gives feedback on a turn."""

FEEDBACK_CHARS: Final = 1_000
"""The longest text of feedback, which is the most that the model reads of it."""


class ToolCall(Value):
    """The requested tool call; `params` keep the model's order."""

    tool_id: str
    params: dict[str, Any]


class Action(Value):
    """One action of a round, recorded before it runs. A repeated run has the same id.

    `bound` are the contents of the references in its parameters, by path: every run gets the same.
    """

    call_id: str
    tool_id: str
    params: dict[str, Any]
    code: str | None = None
    bound: dict[str, Body] = msgspec.field(default_factory=dict)


def digest_call(action: Action) -> str:
    """Return the first 16 hex digits of the SHA-256 of a call: of its tool, its parameters and its program."""
    asked = (action.tool_id, action.params, action.code)
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:_CALL_DIGITS]


class LastingCall(Value):
    """A call with a lasting effect, as the log has it: made in the round `iteration` of a turn, and settled in batch n.

    `status` is that of its result; one that is `running` has none, and counts as `once`. `title` is the beginning of its
    short parameters, `digest` that of `digest_call`.
    """

    tool: str
    call: str
    effect: LastingEffect
    turn_id: str
    iteration: int
    n: int
    at: str
    status: CallStatus = "ok"
    title: str = ""
    digest: str = ""


class Notice(Value):
    """A message to the model for the next round: a stable `code`, a self-contained sentence, and its facts."""

    code: str
    message: str
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class Declined(Value):
    """The refusal of a model, or of its provider's safeguards, to answer a request.

    `category` and `explanation` are those of the provider, or empty. `fallback`: the role has another model,
    which is called next.
    """

    category: str = ""
    explanation: str = ""
    fallback: bool = False


class ParsedDecision(Value):
    """One valid decision. `final_answer` is set exactly for `complete` and `exit`.

    A call may stage content to show in full. `value` is the JSON value of the result, UNSET without one.
    """

    action: ActionName
    notes: str = ""
    tool_call: ToolCall | None = None
    final_answer: str | None = None
    suggested_followups: tuple[str, ...] = ()
    show_artifacts: tuple[str, ...] = ()
    show_skills: tuple[str, ...] = ()
    value: Any = msgspec.UNSET


FanoutMode: TypeAlias = Literal["off", "safe_fanout", "read_write_search"]

FANOUT_MODES: Final[Mapping[str, FanoutMode]] = {
    **dict.fromkeys(("off", "false", "0", "no"), "off"),
    **dict.fromkeys(("safe_fanout", "fanout", "on", "true", "1", "yes"), "safe_fanout"),
    "read_write_search": "read_write_search",
}
"""The accepted names of each mode."""


DIGEST_BYTES: Final = 15
"""The first bytes of a request's SHA-256 that are recorded."""
_CALL_DIGITS: Final = 16
_HEX_DIGITS: Final = 64
_CARRIED_CHARS: Final = 20


class RoundFacts(Value):
    """The facts of a round that its request shows and that no batch before it has.

    `max_iterations` are without credits. `now` is the time of the request, and `iteration` counts from 0; no time and -1
    are those of the round's decision. `last_round`: only an answer is accepted. `finalize` counts the rounds left after
    a steer, with this one; 0 if the turn is not bounded. `finalize_tools` may be called in such a round except the last.
    `budget_tokens` is the limit of a request in the layout `journal`. `extra` are lines of the bundle's code, `workspace`
    is the section about the workspace of a project that has a history. `unsaved` is a turn whose project is not saved yet,
    in the first round of a turn; the decision has a notice of it.
    """

    max_iterations: int
    now: str = ""
    iteration: int = -1
    last_round: bool = False
    finalize: int = 0
    finalize_tools: tuple[str, ...] = ()
    budget_tokens: int = 80_000
    extra: tuple[str, ...] = ()
    workspace: str = ""
    unsaved: str = ""

    def without_decided(self) -> RoundFacts:
        """Return the facts without those that the round's decision has: `started_at`, `iteration` and a notice."""
        return replace(self, now="", iteration=-1, unsaved="")


class Sent(Value):
    """The facts about a round's request that the log lacks: with them the request is rendered again, byte for byte.

    `digest` is the beginning of the SHA-256 of the request, which verifies the result, as base64url: 120 bits of
    `stepline.context.request.digest_request`, or 128 of `digest_whole_request`. `minimum_tokens` decided its cache marks. `files` has an item for each of the newest
    pictures and documents: why its bytes were not sent, "" if they were. `round_facts` lack the values that the decision has.

    In the `layout` `journal`, `staged` is the SHA-256 of the contents that it showed in full, stored at `out_key` of the
    turn; "" if it showed none. `promised_tokens` are those at its beginning that the next request has too.

    Release 0.1.0 recorded the whole SHA-256 as hex, and instead of `round_facts` the text at the end of the request as
    `announce`, or in the layout `journal` its `facts` as JSON.
    """

    digest: str
    announce: str = ""
    max_tokens: int = 0
    minimum_tokens: int = 0
    temperature: float | None = None
    files: tuple[str, ...] = ()
    layout: ContextLayout = "timeline"
    facts: str = ""
    staged: str = ""
    promised_tokens: int = 0
    round_facts: RoundFacts | None = None

    @property
    def sha256(self) -> str:
        """The recorded hex digits of the request's SHA-256: the first 30 or 32, or all 64."""
        whole = len(self.digest) == _HEX_DIGITS
        return self.digest if whole else urlsafe_b64decode(self.digest + "=" * (-len(self.digest) % 4)).hex()

    @property
    def carries_digest(self) -> bool:
        """True if the digest is that of `digest_request`, not of `digest_whole_request`."""
        return len(self.digest) == _CARRIED_CHARS

    def restore_facts(self, *, started_at: str, iteration: int) -> RoundFacts:
        """Return the facts of the round; `started_at` and `iteration` are those of its decision."""
        facts = self.round_facts or msgspec.json.decode(self.facts, type=RoundFacts)
        return replace(facts, now=facts.now or started_at, iteration=iteration)


def shorten_digest(sha256: str) -> str:
    """Return the recorded form of a SHA-256 in hex: its first 120 bits as 20 characters of base64url."""
    return urlsafe_b64encode(bytes.fromhex(sha256)[:DIGEST_BYTES]).decode()


class RemoteTask(Value):
    """A call that a server works on: the id of its task, the server's hints, and its deadline.

    `poll_s` is the polling interval that the server requests, `ttl_s` how long it keeps the task; None if not given.
    """

    id: str
    poll_s: float | None = None
    ttl_s: float | None = None
    until: str = ""
