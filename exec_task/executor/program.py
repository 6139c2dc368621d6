"""Runs the generated program: its unchanged text, as the module `__main__`, to its end.

The program has OUTPUT_DIR (text) and OUT_DIR (Path), WORKDIR, EXECUTION_ID, BUNDLE_ID, BUNDLE_ROOT (text),
`agent_io_tools`, `ctx_tools` and an object for every alias of the agent's tools, as globals and as modules. It
starts in the current turn's folder. A top-level `await` runs under `asyncio.run`; a program without one may call
that itself.

Source: docs/reference/execution.md#what-a-program-finds.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import faulthandler
import io
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from . import agent_io_tools, ctx_tools
from .proxy import ToolFunction, ToolModule
from .wire import Client

FAILED: Final = 1
INTERRUPTED: Final = 128 + signal.SIGINT

_OURS: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 - tracebacks hold text paths


def run(payload: Mapping[str, Any], client: Client) -> int:
    """Run `<work>/user_code.py` and return its exit code; all its output is flushed when this returns.

    For a program that was interrupted or terminated, the code is 128 + the signal number.
    """
    path = os.path.join(payload["work"], "user_code.py")  # noqa: PTH118 - the text is what tracebacks show
    _open_streams()
    _end_in_order()
    agent_io_tools.bind(client, payload["out"])
    module = _main_module(payload, path)
    code = _ending(lambda: _execute(path, vars(module)))
    late = _ending(_wind_down)
    _flush()
    return code or late


def _open_streams() -> None:
    """Use UTF-8 regardless of the locale, and flush every line: the program may be killed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    faulthandler.enable()  # reports a crash inside a package
    # Python ignores the signal for a file that grows too large; here the signal ends the program, with a traceback.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    faulthandler.register(signal.SIGXFSZ, chain=True)


def _terminate(number: int, _frame: types.FrameType | None) -> NoReturn:
    """Let the program end through its `finally` blocks; a second signal ends it without them."""
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


def _end_in_order() -> None:
    """Handle SIGTERM in the program, but not in its forks.

    Process pools end their workers with this signal. A handler written in Python would miss a signal that arrives
    before the fork is complete, and the pool would wait forever; so the signal is blocked until the child has the
    kernel's own handler again.
    """
    signal.signal(signal.SIGTERM, _terminate)
    # A background process without a terminal ignores SIGINT, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    masks = threading.local()

    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def release_child() -> None:
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_child)


def _main_module(payload: Mapping[str, Any], path: str) -> types.ModuleType:
    """Create the folders, install the tools, and return the program's module.

    The module is named `__main__`: a block under `if __name__ == "__main__":` is meant to run, and pickle,
    dataclasses and multiprocessing look up the program's definitions by that name.
    """
    out = payload["out"]
    home = Path(out, payload["turn"])
    home.mkdir(parents=True, exist_ok=True)
    os.chdir(home)
    # The program's own modules: those next to it, then those it writes to the current folder.
    sys.path[:0] = [payload["work"], str(home)]
    sys.argv[:] = [path]
    module = types.ModuleType("__main__")
    tools = _tool_modules(payload["aliases"])
    vars(module).update(
        tools,
        __file__=path,
        __builtins__=__builtins__,
        OUTPUT_DIR=out,
        OUT_DIR=Path(out),
        WORKDIR=payload["work"],
        EXECUTION_ID=payload["exec_id"],
        BUNDLE_ID=payload["bundle_id"],
        BUNDLE_ROOT=payload["bundle_root"],
    )
    # An alias that has the name of a standard module is only a global; hiding the module would break other modules.
    sys.modules.update({name: it for name, it in tools.items() if name not in sys.stdlib_module_names})
    sys.modules["__main__"] = module
    return module


def _tool_modules(aliases: Mapping[str, list[str]]) -> dict[str, types.ModuleType]:
    """Return the modules of the tools by name.

    `io_tools` is an alias of `agent_io_tools`, as in other runtimes.
    """
    modules: dict[str, types.ModuleType] = {
        alias: ToolModule(alias, names, agent_io_tools.send)
        for alias, names in aliases.items()
        if alias.isidentifier()
    }
    for name in aliases.get("ctx_tools", ()):
        if not hasattr(ctx_tools, name):
            setattr(ctx_tools, name, ToolFunction(f"ctx_tools.{name}", agent_io_tools.send))
    return modules | {"agent_io_tools": agent_io_tools, "io_tools": agent_io_tools, "ctx_tools": ctx_tools}


def _execute(path: str, scope: dict[str, Any]) -> None:
    with open(path, "rb") as file:  # noqa: PTH123 - bytes, so that the compiler reads a BOM and a coding line itself
        source = file.read()
    code = compile(source, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    found = eval(code, scope)  # noqa: S307 - running the program is the purpose of this process
    if isinstance(found, types.CoroutineType):
        import asyncio  # noqa: PLC0415 - takes 30 ms, which a program without `await` does not need

        asyncio.run(found)


def _wind_down() -> None:
    """Wait for threads and run `atexit` functions, because this process exits without Python's finalization."""
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - also ends idle pools; no public call does
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way to run what the program registered


def _ending(act: Callable[[], None]) -> int:
    """Run `act` and return the exit code that Python would."""
    try:
        act()
    except SystemExit as end:
        return _exit_code(end)
    except BaseException as error:  # noqa: BLE001 - every end of a program is reported and becomes an exit code
        _print(_describe(error))
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILED
    return 0


def _exit_code(end: SystemExit) -> int:
    match end.code:
        case None:
            return 0
        case int(code):
            return code & 0xFF
        case message:
            _print(f"{message}\n")
            return FAILED


def _describe(error: BaseException) -> str:
    """Return a traceback without the frames around the program."""
    try:
        trace = traceback.TracebackException.from_exception(error, compact=True)
        _trim(trace)
        return "".join(trace.format())
    except Exception:  # noqa: BLE001 - out of memory or stack, or an error object that breaks when it is read
        return f"{type(error).__name__}, whose traceback cannot be shown\n"


def _trim(trace: traceback.TracebackException) -> None:
    theirs = [frame for frame in trace.stack if not frame.filename.startswith(_OURS)]
    main = sys.modules["__main__"].__file__
    first = next((i for i, frame in enumerate(theirs) if frame.filename == main), 0)
    trace.stack[:] = theirs[first:]
    for other in (trace.__cause__, trace.__context__, *(trace.exceptions or ())):
        if other is not None:
            _trim(other)


def _print(text: str) -> None:
    """Print to the program's log, even if the program has closed or replaced its stream."""
    _flush()
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        # A stream that the program closed or replaced is the program's own responsibility.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr] # None and foreign objects have no `flush`: suppressed
