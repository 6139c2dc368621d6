"""A bundle's own paths: `crm:customers/42` leads to content that a function of the bundle finds for the user.

`react.read` shows it, `react.pull` makes a file of it. The log stores the content with the result of the call, so that
reading the log never resolves a path again. A function that fails, or takes too long, fails its path and not the turn;
the state machine retries its DependencyError, like a tool's.

Source: docs/how-to/write-a-bundle.md#paths-of-its-own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final, TypeAlias, TypeVar

from stepline.errors import InputError, SteplineError, ToolError
from stepline.model.ids import Lane
from stepline.model.path import is_namespace
from stepline.ports.descriptor import SecretReader, SettingsReader
from stepline.tools.context import Resolve, Shelved, ToolContext
from stepline.tools.knowledge import shelve

logger = logging.getLogger(__name__)

T = TypeVar("T")

ABOUT_CHARS: Final = 200
CONTENT_MAX_BYTES: Final = 16 * 1024 * 1024
"""The number of bytes that a read holds in memory."""
RESOLVE_S: Final = 10
RESOLVE_MAX_S: Final = 20
"""Forty paths of one call end within the time of a step, even if each takes this long."""
INVALID: Final = "resolver_invalid"
FAILED: Final = "resolver_failed"
LATE: Final = "resolver_timeout"
TOO_LARGE: Final = "content_too_large"


@dataclass(frozen=True, kw_only=True)
class PathScope:
    """The recipient of a path's content: the conversation with its tenant and project, its user, and the deployment's services."""

    lane: Lane
    user: str
    settings: SettingsReader
    secrets: SecretReader


ResolveFunction: TypeAlias = Callable[[str, PathScope], Any]
"""Takes the path after the namespace (`customers/42`) and the scope.

Returns a text, bytes, a mapping (`text`, `data` or `base64`; `mime`, `missing`, `error`), or None if there is nothing for
this user. A coroutine function is awaited.
"""


@dataclass(frozen=True, kw_only=True)
class NamespaceResolver:
    """A namespace of a bundle's own paths, and the function that finds their content.

    `about` is the line that describes the paths and their form to the model. A content has at most `max_bytes`, and
    arrives within `timeout_s`.
    """

    namespace: str
    resolve: ResolveFunction
    about: str
    max_bytes: int = CONTENT_MAX_BYTES
    timeout_s: float = RESOLVE_S


def check_resolvers(resolvers: Sequence[object]) -> None:
    """Refuse a value that is not a resolver, and two resolvers of one namespace. Raises InputError `resolver_invalid`."""
    seen: set[str] = set()
    for one in resolvers:
        if not isinstance(one, NamespaceResolver):
            raise InputError(f"`resolvers` holds {one!r:.80}, which is no NamespaceResolver", code=INVALID)
        if flaw := _flaw(one, seen):
            raise InputError(f"the resolver of {one.namespace!r:.80}: {flaw}", code=INVALID)
        seen.add(one.namespace)


def _flaw(one: Any, seen: set[str]) -> str:
    """Return the first flaw of a resolver, whose fields may hold anything; "" if there is none."""
    text = all(isinstance(value, str) for value in (one.namespace, one.about))
    flaws = (
        (not text or not is_namespace(one.namespace), "no paths can begin with that"),
        (one.namespace in seen, "there are two of them"),
        (not callable(one.resolve), "`resolve` is no function"),
        (not text or not _is_line(one.about), f"`about` is one line of at most {ABOUT_CHARS} characters"),
        (not 0 < one.max_bytes <= CONTENT_MAX_BYTES, f"`max_bytes` is at most {CONTENT_MAX_BYTES}"),
        (not 0 < one.timeout_s <= RESOLVE_MAX_S, f"`timeout_s` is at most {RESOLVE_MAX_S}"),
    )
    return next((said for wrong, said in flaws if wrong), "")


def _is_line(text: str) -> bool:
    return 0 < len(text.strip()) <= len(text) <= ABOUT_CHARS and text.isprintable()


def render_namespaces(resolvers: Sequence[NamespaceResolver]) -> str:
    """Return the list of an agent's own paths for its instructions; "" without any."""
    if not resolvers:
        return ""
    head = "[NAMESPACES]\nPaths of this agent's own: `react.read` shows what stands at one, `react.pull` makes a file of it.\n"
    return head + "\n".join(f"- `{one.namespace}:…` {one.about}" for one in resolvers)


def resolve_with(resolver: NamespaceResolver) -> Resolve:
    """Return the function that finds the content of a resolver's path; its own function is not a coroutine function."""

    def resolve(path: str, context: ToolContext) -> Shelved | None:
        rel = path.partition(":")[2]
        scope = PathScope(
            lane=context.lane, user=context.user, settings=context.settings, secrets=context.secrets
        )
        found = shelve(_ask(resolver, rel, scope), code=FAILED)
        if found is not None:
            _check_size(found, resolver.max_bytes)
        return found

    return resolve


def _ask(resolver: NamespaceResolver, rel: str, scope: PathScope) -> Any:
    """Call the bundle's function. Raises its own SteplineError, or ToolError `resolver_failed`, `resolver_timeout`."""
    facts = {"namespace": resolver.namespace}
    try:
        return within(resolver.timeout_s, lambda: resolver.resolve(rel, scope))
    except SteplineError:
        raise
    except TimeoutError as error:
        logger.warning("a bundle's resolver is late", extra=facts)
        raise ToolError(f"{resolver.namespace}: does not answer in time", code=LATE) from error
    except Exception as error:
        logger.exception("a bundle's resolver failed", extra=facts)
        raise ToolError(f"{resolver.namespace}: cannot be read now", code=FAILED) from error


def within(seconds: float, run: Callable[[], T]) -> T:
    """Return a function's value within the time; a function that takes longer continues, and its result is ignored.

    Raises TimeoutError, and the function's own errors.
    """
    from concurrent.futures import Future  # noqa: PLC0415 - few turns resolve a path

    ended: Future[T] = Future()

    def work() -> None:
        try:
            ended.set_result(run())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            ended.set_exception(error)

    Thread(target=work, name="resolver", daemon=True).start()
    return ended.result(timeout=seconds)


def _check_size(found: Shelved, max_bytes: int) -> None:
    size_bytes = len(found.text.encode("utf-8", "surrogatepass") if found.data is None else found.data)
    if size_bytes > max_bytes:
        raise ToolError(
            f"what stands there has {size_bytes} bytes, and {max_bytes} are taken",
            code=TOO_LARGE,
            bytes=size_bytes,
            byte_limit=max_bytes,
        )
