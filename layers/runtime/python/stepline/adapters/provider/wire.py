"""The parts that providers share: the model of each role, the limits of a call, and the waits between its attempts.

`WireProvider` is the base of a provider over a wire: a transport sends a call's fields and yields the events of its answer,
and a fold reads them.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from msgspec.structs import replace

from stepline.errors import (
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)
from stepline.model.base import Value
from stepline.ports.model import DEFAULT_ROLE, AnswerFacts, Effort, Media, MediaKind, ModelRequest, RoleChoice

KEY_PLACE: Final = "{key}"
"""The place of the key in a header's value."""
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
BUSY: Final = (ModelOverloaded, ModelRateLimited, ModelUnreachable, ModelTimeout)
"""Errors after which a role's fallback may answer, once they have lasted for as long as the role says."""
RETRIED: Final = (
    ModelOverloaded,
    ModelRateLimited,
    ModelUnreachable,
    ModelTimeout,
    ModelStreamBroken,
    DependencyError,
)

ROOM_TOKENS: Final[Mapping[Effort, int]] = MappingProxyType(
    {"low": 4_096, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 32_768}
)
"""Tokens for thinking, by effort, in addition to those of the text. Only used tokens are billed, but Bedrock counts
`max_tokens` against the account's quota while a call runs."""

BUSY_TRIES: Final = 100
"""The maximum attempts of a busy model that has a fallback."""

_random = random.SystemRandom()


class Retry(Value):
    """Full jitter: wait a random time up to `base_s`·2ⁿ, at most `cap_s`.

    No attempt begins later than `budget_s` after the first, nor after a requested wait longer than
    `retry_after_max_s`: Step Functions, which waits for free, retries then.
    """

    tries: int = 3
    base_s: float = 0.5
    cap_s: float = 4.0
    retry_after_max_s: float = 8.0
    budget_s: float = 20.0


class Timeouts(Value):
    """Seconds for each part of a call; `read_s` is the longest silence, during which providers send pings."""

    connect_s: float = 5.0
    read_s: float = 60.0
    write_s: float = 30.0


def plan_roles(default_model: str, chosen: Mapping[str, RoleChoice]) -> dict[str, RoleChoice]:
    """Return the roles of a deployment; `*` is always included, and its model serves roles that name none."""
    choices = {DEFAULT_ROLE: RoleChoice(), **chosen}
    default = replace(choices[DEFAULT_ROLE], model=choices[DEFAULT_ROLE].model or default_model)
    return {
        role: choice if choice.model else replace(choice, model=default.model, family=default.family)
        for role, choice in choices.items()
    }


def fall_back(role: RoleChoice) -> RoleChoice:
    """Return the role with its fallback in place of its model, and the defaults of the fallback's family."""
    model, family = (role.fallback, role.fallback_family) if role.fallback else (role.model, role.family)
    return RoleChoice(model=model, family=family, max_tokens=role.max_tokens, cache_ttl=role.cache_ttl)


def wait_for(retry: Retry, role: RoleChoice, error: SteplineError) -> Retry:
    """Return the rules for an error: a busy model with a fallback is called again for as long as the role says."""
    if role.fallback_after_s is None or not isinstance(error, BUSY):
        return retry
    after_s = role.fallback_after_s
    return replace(retry, tries=BUSY_TRIES, budget_s=after_s, retry_after_max_s=after_s)


def draw_wait_s(retry: Retry, error: SteplineError, *, attempt: int, elapsed_s: float) -> float | None:
    """Draw the seconds to wait before the attempt after `attempt` (from 0); None to give up."""
    asked = error.context.get("retry_after_s")
    if (
        not isinstance(error, RETRIED)
        or attempt + 1 >= retry.tries
        or (isinstance(asked, int | float) and asked > retry.retry_after_max_s)
    ):
        return None
    wait_s = _random.uniform(0, min(retry.cap_s, retry.base_s * 2.0**attempt))
    if isinstance(asked, int | float):
        wait_s += asked
    return wait_s if elapsed_s + wait_s <= retry.budget_s else None


def media_kind(file: Media) -> MediaKind:
    """Return the kind of a file."""
    from stepline.model.file.mime import PICTURES  # noqa: PLC0415 - functions that send no file import the roles above

    return "pictures" if file.body.mime in PICTURES else "documents"


def notice_unsent(file: Media) -> str:
    """Return the text in place of a file whose kind a model does not read."""
    size = f"{file.body.mime}, {len(file.data)} bytes"
    return f"[{file.path}: {size}. This model reads no {media_kind(file)}; it was not sent.]"


class WireAnswer(Protocol):
    """A streamed answer whose head has arrived."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the events of the answer. Raises SteplineError."""
        ...

    def close(self) -> None: ...

    def shut_down(self) -> None:
        """Wake a thread that waits for the next event; callable from another thread."""
        ...


class Transport(Protocol):
    """The connections to a provider with one API key; "" if it has none."""

    api_key: str

    def send(self, call: Mapping[str, Any]) -> WireAnswer:
        """Send the fields of a call. Raises SteplineError."""
        ...

    def close(self) -> None: ...


class AnswerFold(Protocol):
    """The state of one answer."""

    def take(self, event: Any) -> str:
        """Apply one event and return the text that it adds. Raises SteplineError."""
        ...

    def facts(self) -> AnswerFacts: ...


class WireProvider(ABC):
    """The base of a provider: its transport is created on first use and kept, and its key is read again when it is refused."""

    def __init__(
        self,
        *,
        api_key: Callable[[], str] = str,
        base_url: str = "",
        headers: Mapping[str, str] = _NO_HEADERS,
        guarded: bool = False,
        name: str = "",
        timeouts: Timeouts | None = None,
    ) -> None:
        """Store the configuration; nothing is imported or sent.

        `api_key` is called when a transport is created, and again when the provider refuses its key. `headers` are sent with
        each request; the key is put in place of `{key}`. `guarded`: only a public address is called, and no proxy.
        `name` is put before the names of models in receipts.
        """
        self.name = name
        self._read_key = api_key
        self.timeouts = timeouts or Timeouts()
        self._base_url = base_url
        self._headers = headers
        self._guarded = guarded
        self._kept: Transport | None = None
        self._lock = threading.Lock()

    def api_key(self) -> str:
        """Return the key, without the space around it that a file or a secret may have. Raises the reader's errors."""
        return self._read_key().strip()

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request: those of the configuration, and the key as a bearer if none of them has it.

        Raises ModelRefused `model_credentials` for a key that no header can have.
        """
        if not (key.isascii() and key.isprintable()):
            raise ModelRefused("the provider's key has characters that no key has", code="model_credentials")
        sent = {header.lower(): value.replace(KEY_PLACE, key) for header, value in self._headers.items()}
        if key and not any(KEY_PLACE in value for value in self._headers.values()):
            sent["authorization"] = f"Bearer {key}"
        return sent

    @abstractmethod
    def connect(self) -> Transport:
        """Return a new transport. Raises SteplineError."""

    @property
    @abstractmethod
    def plan(self) -> Callable[[ModelRequest, RoleChoice], Mapping[str, Any]]:
        """The function that returns the fields of a call."""

    @abstractmethod
    def fold(self) -> AnswerFold:
        """Return the fold of a new answer."""

    def call(self, request: ModelRequest, role: RoleChoice) -> WireCall:
        return WireCall(self, self.fold(), request, role)

    def warm(self) -> None:
        self.transport()

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def transport(self) -> Transport:
        """Return the kept transport, or a new one. Raises SteplineError."""
        with self._lock:
            if self._kept is None:
                self._kept = self.connect()
            return self._kept

    def renew(self, refused: Transport | None) -> bool:
        """Read the key again; return True if it differs from the key of the `refused` transport.

        The next call then creates a transport with it. Raises the errors of reading the key.
        """
        with self._lock:
            if refused is None or refused is not self._kept:
                return True  # another call has renewed it
            if refused.api_key == self.api_key():
                return False
            self._kept = None  # it ends with its open streams
            return True


class WireCall:
    """One request over a wire (`ProviderCall`)."""

    def __init__(
        self, provider: WireProvider, fold: AnswerFold, request: ModelRequest, role: RoleChoice
    ) -> None:
        self._provider = provider
        self._request = request
        self._role = role
        self._fold = fold
        self._transport: Transport | None = None
        self._answer: WireAnswer | None = None

    def send(self) -> None:
        self._transport = self._provider.transport()
        self._answer = self._transport.send(self._provider.plan(self._request, self._role))

    def __iter__(self) -> Iterator[str]:
        return map(self._fold.take, self._answer or ())

    @property
    def facts(self) -> AnswerFacts:
        facts, name = self._fold.facts(), self._provider.name
        return replace(facts, model=f"{name}:{facts.model}") if name and facts.model else facts

    def renew(self) -> bool:
        return self._provider.renew(self._transport)

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()

    def shut_down(self) -> None:
        if self._answer is not None:
            self._answer.shut_down()
