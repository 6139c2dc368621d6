"""The language model: text with cache marks, pictures and documents in, generated text out as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Protocol, Self, TypeAlias

from msgspec import Meta

from stepline.model.base import Value
from stepline.model.block import Body
from stepline.model.decision import Declined
from stepline.model.usage import Usage, estimate_tokens, sum_usages

Thinking: TypeAlias = Literal["adaptive", "disabled", "between_tools"]
Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
CacheTtl: TypeAlias = Literal["5m", "1h"]
MediaKind: TypeAlias = Literal["pictures", "documents"]

DEFAULT_ROLE: Final = "*"
DECISION_ROLE: Final = "solver.react.v2.decision.v2.regular"
"""The role of the round's decision, in the map from role to model."""

_NO_TEXTS: Final = bytes(32)


class RoleChoice(Value, forbid_unknown_fields=True):
    """A deployment's choice for one role; an omitted field has the default of the model's family.

    `thinking` is a type, or a number of tokens for models that support only a budget. `max_tokens` limits one call,
    including thinking. `fallback` is the model that is called once if `model` declines, or has been too busy to answer, or
    out of reach, for `fallback_after_s` seconds. `cache_ttl` is how long the provider caches a prompt. `family` and `fallback_family` are the names of those models where an ARN does not
    contain them, as that of an application inference profile. Source: docs/reference/models.md.
    """

    model: str = ""
    thinking: Thinking | Annotated[int, Meta(ge=1024)] | None = None
    effort: Effort | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    fallback: str = ""
    fallback_after_s: Annotated[float, Meta(ge=0, le=120)] | None = None
    cache_ttl: CacheTtl = "5m"
    family: str = ""
    fallback_family: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a wait without a model after it."""
        if self.fallback_after_s is not None and not self.fallback:
            raise ValueError("fallback_after_s needs a fallback")

    @property
    def named(self) -> str:
        """The name by which the family and the prices of the model are found."""
        return self.family or self.model


WireName: TypeAlias = Literal["messages", "chat", "converse"]


class ModelServer(Value, forbid_unknown_fields=True):
    """A deployment's row for one provider: the protocol that it speaks, its address, and what is known of it.

    `secret_arn` is the secret that holds its key, `headers` are sent with each request, with the key in place of `{key}`.
    Unless it is `private`, only public addresses are called, and no proxy. `window_tokens` is the context window of its
    models, `takes` are the kinds of files that they read, and `prices` are rows as those of `STEPLINE_PRICES`.
    """

    wire: WireName = "chat"
    base_url: str = ""
    secret_arn: str = ""
    headers: Mapping[str, str] = MappingProxyType({})
    private: bool = False
    window_tokens: Annotated[int, Meta(ge=1024)] | None = None
    takes: tuple[MediaKind, ...] | None = None
    prices: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an address or a header that no request can have."""
        if self.base_url and not _ADDRESS.fullmatch(self.base_url):
            raise ValueError("base_url is no address that begins with http:// or https://")
        for name, value in self.headers.items():
            if not (_HEADER.fullmatch(name) and value.isascii() and value.isprintable()):
                raise ValueError(f"no header can be {name[:40]!r}")
        if self.signed and (self.secret_arn or self.headers):
            raise ValueError("the wire converse takes no secret_arn and no headers: its requests are signed")

    @property
    def signed(self) -> bool:
        """True if its requests are signed with a role of AWS, which grants them, instead of a key."""
        return self.wire == "converse"


_ADDRESS: Final = re.compile(r"https?://[^\s/@]+(/[^\s?#]*)?")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+")
PROVIDER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""The name of a provider, before the colon of a role's model."""


def split_model(model: str) -> tuple[str, str]:
    """Return the provider that a role's model names, as in `openai:gpt-5.5`, and its model; "" if it names none.

    Bedrock's ids have their colon after a dot, and an ARN is no name of a provider.
    """
    name, colon, rest = model.partition(":")
    return (name, rest) if colon and name != "arn" and PROVIDER_NAME.fullmatch(name) else ("", model)


def named_providers(roles: Mapping[str, RoleChoice]) -> set[str]:
    """Return the providers that roles name for their models and fallbacks; "" for those that name none."""
    models = (model for role in roles.values() for model in (role.model, role.fallback) if model)
    return {split_model(model)[0] for model in models}


class Part:
    """A text. `cache` puts a mark after it: the provider may cache everything up to here.

    A value, made from `text` or from `raw`, its UTF-8. A segment has thousands of parts as bytes, so `text` is decoded
    when it is first read. `chain` is the digest of the texts of a request up to this one (`digest_texts`), if it is known.
    """

    __slots__ = ("_raw", "_text", "cache", "chain")

    def __init__(
        self,
        *,
        text: str | None = None,
        raw: bytes | memoryview | None = None,
        cache: bool = False,
        chain: bytes = b"",
    ) -> None:
        self._text, self._raw = text, raw
        self.cache: Final = cache
        self.chain: Final = chain

    @property
    def text(self) -> str:
        """The text."""
        if self._text is None:
            self._text = str(self._raw or b"", "utf-8", "surrogatepass")
        return self._text

    @property
    def raw(self) -> bytes | memoryview:
        """The text in UTF-8; a lone surrogate has three bytes."""
        return self.text.encode("utf-8", "surrogatepass") if self._raw is None else self._raw

    @property
    def tokens(self) -> int:
        """The estimated tokens of the text."""
        return estimate_tokens(self.text)

    def with_mark(self, *, cache: bool) -> Part:
        """Return this part with a mark, or without one."""
        return Part(text=self._text, raw=self._raw, cache=cache, chain=self.chain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and (self.cache, self.text) == (other.cache, other.text)

    def __hash__(self) -> int:
        return hash((self.cache, self.text))

    def __repr__(self) -> str:
        return f"Part(text={self.text!r}, cache={self.cache})"


def digest_texts(parts: Sequence[Part]) -> bytes:
    """Return the SHA-256 of the last text after that of the texts before it; b"" for no text.

    Only texts after the newest one with a known `chain` are hashed.
    """
    at = len(parts)
    while at and not parts[at - 1].chain:
        at -= 1
    chain = parts[at - 1].chain if at else b""
    for part in parts[at:]:
        chain = extend_chain(chain, part.raw)
    return chain


def extend_chain(chain: bytes, text: bytes | memoryview) -> bytes:
    """Return the digest of a request's texts after one more, in UTF-8; `chain` is that of the texts before it."""
    digest = sha256(chain or _NO_TEXTS)
    digest.update(text)
    return digest.digest()


class Media(Value):
    """A picture or a document, from `path`. `data` are the bytes of `body`, read when the request is sent.

    `tokens` are estimated. `why` is the reason if the bytes are not sent.
    """

    path: str
    body: Body
    tokens: int
    data: bytes = b""
    why: str = ""


Content: TypeAlias = Part | Media
"""One content block of a request: text, a picture or a document."""


class ModelRequest(Value):
    """One request.

    `role` names its purpose (`solver.react.decision`, `gate.simple`); a deployment maps it to a model.

    `max_tokens` limits the text of the answer, not its thinking. `temperature` is sent to the few models that accept
    one, and has no effect on any other. `declined`: the role's model declined this request before, so its fallback is
    called, if there is one.
    """

    role: str
    system: tuple[Part, ...]
    content: tuple[Content, ...]
    max_tokens: int
    temperature: float | None = None
    declined: bool = False


class FailedTry(Value):
    """The tokens of one failed attempt of a call, and the model that used them."""

    model: str
    usage: Usage


class Completion(Value):
    """The result of a call, including an aborted or cut call.

    `stop_reason` is the provider's value (`end_turn`, `max_tokens`, `stop_sequence`, `refusal`,
    `model_context_window_exceeded`, …) or ours: `aborted` after `abort`, `cut` after an error, `too_long` for an
    answer that was stopped because it is longer than any answer of `max_tokens` tokens. A refusal is an answer, not an
    error; it sets `declined`, and its text is void. The text can be encoded: it holds no half of a surrogate pair.

    `retries` counts the failed attempts before this one, which are in `tries`. An attempt that was aborted before it was
    sent, or that failed before the provider counted anything, used no tokens.
    """

    text: str
    stop_reason: str
    usage: Usage
    model: str
    message_id: str = ""
    aborted: bool = False
    retries: int = 0
    tries: tuple[FailedTry, ...] = ()
    declined: Declined | None = None

    @property
    def lost(self) -> Usage:
        """The tokens of the failed attempts."""
        return sum_usages((Usage(), *(one.usage for one in self.tries)))

    @property
    def cost(self) -> Usage:
        """The tokens of all attempts."""
        return sum_usages((self.usage, *(one.usage for one in self.tries)))


class ModelStream(Protocol):
    """One running call; leaving its `with` block closes the connection."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def __iter__(self) -> Iterator[str]:
        """Send the request and yield its text as it arrives; iterate once.

        The first piece may be empty: the provider has counted the prompt, and `completion` has its tokens.

        Raises:
            ModelOverloaded, ModelRateLimited: temporary, retry later. `retry_after_s` in the context is the wait
                that the provider requests, if it sends one.
            ModelUnreachable, ModelTimeout: there was no answer.
            ModelStreamBroken: `stream_cut`, the connection ended before the answer did, even if text arrived
                before; `stream_malformed`, the response is not a valid answer.
            DependencyError: another temporary failure.
            ContextLimit: the request does not fit into the model's window.
            ModelRefused: this request will never be accepted.
        """
        ...

    def abort(self) -> None:
        """Stop early; callable from another thread and more than once.

        The iteration then ends without an error, even while it waits for the provider's first answer.
        """
        ...

    def completion(self) -> Completion:
        """Return the result of the call so far; after the iteration has ended in any way, it is complete."""
        ...


class AnswerFacts(Value):
    """The facts of one answer besides its text, as far as they arrived.

    `usage` are the tokens counted so far, None before the first count; `counted`: they are those of the whole answer.
    `ended`: the answer is complete, with the provider's `stop_reason`, if it sent one; `declined` is the reason of a
    refusal. `unread` counts the facts that could not be read, by name.
    """

    model: str = ""
    message_id: str = ""
    stop_reason: str = ""
    ended: bool = False
    declined: Declined | None = None
    usage: Usage | None = None
    counted: bool = False
    unread: Mapping[str, int] = MappingProxyType({})


class ProviderCall(Protocol):
    """One request to a provider, sent once. Its text is unprocessed: of any length, perhaps cut in a surrogate pair.

    `send` and the iteration raise what `ModelStream` raises.
    """

    def send(self) -> None:
        """Connect and send; return when the head of the response has arrived."""
        ...

    def __iter__(self) -> Iterator[str]:
        """Yield the text of each event of the answer as it arrives, "" for an event without text."""
        ...

    @property
    def facts(self) -> AnswerFacts: ...

    def renew(self) -> bool:
        """Read the provider's key again; return True if it differs from the refused one. Raises the reader's errors."""
        ...

    def close(self) -> None: ...

    def shut_down(self) -> None:
        """Wake a thread that waits for the next event; callable from another thread."""
        ...


class ModelProvider(Protocol):
    """A service that serves models: its protocol, and the rules of its model families.

    `default_model` is used if a deployment names none; `traced_as` is the provider's name in traces. Waits, retries,
    the fallback and the limit of an answer are not part of a provider: `adapters/provider/client.py` has them for all.
    """

    default_model: str
    traced_as: str

    def call(self, request: ModelRequest, role: RoleChoice) -> ProviderCall:
        """Prepare a call of a role's model; nothing is sent."""
        ...

    def warm(self) -> None:
        """Load and create everything that the first call needs. Raises SteplineError."""
        ...

    def find_refusals(self, role: RoleChoice) -> list[str]:
        """Return the choices for a role that its model refuses, one sentence each."""
        ...

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        """Return the minimum length of a model's cached prompt, in tokens; a deployment's `own` values come first."""
        ...

    def close(self) -> None: ...


class ModelClient(Protocol):
    def stream(self, request: ModelRequest) -> ModelStream:
        """Prepare a call; nothing is sent before its iteration begins."""
        ...


class NoModel:
    """The model for processes that call none."""

    def stream(self, request: ModelRequest) -> ModelStream:
        """Raise RuntimeError: a call here is a programming error."""
        raise RuntimeError(f"no model is asked here, not even as {request.role}")


NO_MODEL: Final = NoModel()
