"""Tools as Python objects in a program, such as `react.read(paths=[…])`, and the results of their calls.

A call is made immediately and returns its value, so it needs no `await` and no event loop. Awaiting the value
returns the value itself, so programs that treat tools as coroutines work too. Use threads to run calls in parallel
(`await asyncio.to_thread(react.read, paths=[…])`).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final, NoReturn


class _Awaitable:
    """Makes a value awaitable; awaiting it returns the value."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()  # nothing to wait for; `await` needs a generator
        return self


class _Object(_Awaitable, dict[str, Any]):
    # Hash by identity: `asyncio.gather` uses awaitables as keys, and equal answers are distinct.
    __hash__ = object.__hash__  # type: ignore[assignment] # a dict has none


class _Array(_Awaitable, list[Any]):
    __hash__ = object.__hash__  # type: ignore[assignment] # a list has none


class _Text(_Awaitable, str):
    __slots__ = ()


class _Bytes(_Awaitable, bytes):
    __slots__ = ()


class _Integer(_Awaitable, int):
    __slots__ = ()


class _Number(_Awaitable, float):
    __slots__ = ()


class _Constant(_Awaitable):
    """True, false or null as an awaitable: their types cannot be subclassed."""

    def __init__(self, value: bool | None) -> None:
        self.value = value

    def __await__(self) -> Generator[None, None, bool | None]:
        yield from ()
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


_KINDS: Final[Mapping[type, Callable[[Any], Any]]] = {
    dict: _Object,
    list: _Array,
    str: _Text,
    bytes: _Bytes,
    int: _Integer,
    float: _Number,
}


def answer(value: Any) -> Any:
    """Return a JSON value (or bytes) as an awaitable.

    True, false and null are wrapped only where an event loop runs; without a loop, nothing can await them.
    """
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind(value)
    return _Constant(value) if _has_loop() else value


def _has_loop() -> bool:
    """Return True if an event loop runs in this thread, without importing asyncio."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class ToolFunction:
    """One tool: call it with its parameters by name, or with all of them as one mapping."""

    def __init__(self, tool_id: str, call: Callable[[str, Mapping[str, Any]], Any]) -> None:
        self.tool_id = tool_id
        self.__name__ = tool_id.rpartition(".")[2]
        self.__qualname__ = tool_id
        self._call = call

    def __call__(self, params: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """Call the tool and return its value. Raises ToolCallError."""
        if params is not None and not isinstance(params, Mapping):
            raise TypeError(f"{self.tool_id} takes its parameters by name")
        return self._call(self.tool_id, {**(params or {}), **named})

    def __repr__(self) -> str:
        return f"<tool {self.tool_id}>"


class ToolModule(types.ModuleType):
    """The tools of one alias; you can also import them: `import react`, `from react import read`."""

    def __init__(
        self, alias: str, names: Iterable[str], call: Callable[[str, Mapping[str, Any]], Any]
    ) -> None:
        super().__init__(alias, f"Tools of the agent: {', '.join(names)}.")
        for name in names:
            setattr(self, name, ToolFunction(f"{alias}.{name}", call))

    def __getattr__(self, name: str) -> NoReturn:
        there = ", ".join(key for key, value in vars(self).items() if isinstance(value, ToolFunction))
        raise AttributeError(f"{self.__name__} has no tool {name!r} for programs; there is {there or 'none'}")
