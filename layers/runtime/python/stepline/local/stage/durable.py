"""Durability for the emulator: acknowledged writes survive it. `launch.py` runs this in its process.

The emulator writes its state to files only when it is stopped cleanly. With this module, each change of a table's items
and of an execution's status is written to a file before it is acknowledged, and applied again at the next start. A
signal makes the emulator write its whole state, for the results of a deployment: they change seldom, and `stepline up`
waits for it. The state of the tables is also written some seconds after rows of a log were removed, so that deleted
data is in no file any more, neither in the changes nor in an older state.

Standard library only. It uses names inside the emulator, whose version is pinned by `emulator.lock`: a missing name is
an error at start. Not kept: operations that replace all items of a table at once (an import, a restore, a PartiQL
transaction that is rolled back), which nothing here uses.

Source: docs/adr/0002-emulator.md.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

KEEP = signal.SIGUSR1
"""The signal to write the emulator's whole state, then the file `kept` next to the folder of its state."""

_TEXTS = "LOG#"
"""The prefix of the partition keys whose rows are removed only when a user deletes their data."""

_FORGET_S = 10.0
"""The delay between such a removal and the write of the state: one deletion removes many rows in succession."""

_TRIES = 20


class ChangeFile:
    """Changes since the last written state, one per line. A line cut short by a kill counts as not written."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        os.ftruncate(self._fd, path.read_bytes().rfind(b"\n") + 1)

    def append(self, changes: list[Any]) -> None:
        """Write changes that belong together, all or none. Raises OSError."""
        line = json.dumps(changes, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            end = os.fstat(self._fd).st_size
            if os.write(self._fd, line) != len(line):
                os.ftruncate(self._fd, end)
                raise OSError(f"no room for a change in {self._path}")

    def read(self) -> Iterator[Any]:
        """Yield every change, in order."""
        with self._path.open("rb") as file:
            for line in file:
                yield from json.loads(line)

    def clear(self) -> None:
        """Delete all changes."""
        os.ftruncate(self._fd, 0)

    def size(self) -> int:
        """Return the offset after the newest change."""
        return os.fstat(self._fd).st_size

    def forget(self, before: int) -> None:
        """Delete the changes before an offset; later changes stay, whenever the process is killed."""
        with self._lock:
            rest = self._path.read_bytes()[before:]
            fresh = self._path.with_name(f"{self._path.name}.new")
            fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if os.write(fd, rest) != len(rest):
                os.close(fd)
                raise OSError(f"no room for the changes in {self._path}")
            fresh.replace(self._path)
            os.close(self._fd)
            self._fd = fd


def merge_items(state: dict[str, Any], changes: Iterable[Any]) -> bool:
    """Apply `changes` of [table id, partition key, sort key, item or null] to DynamoDB's state.

    Return True if the state lacked a change.
    """
    tables = {table.get("TableId"): table for table in state["tables"].all_values()}
    last = {(table, pk, sk): item for table, pk, sk, item in changes if table in tables}
    changed = False
    for (table_id, pk, sk), item in last.items():
        items = tables[table_id]["items"]
        if items.get(pk, {}).get(sk) == item:
            continue
        changed = True
        if item is not None:
            items.setdefault(pk, {})[sk] = item
        else:
            del items[pk][sk]
            if not items[pk]:
                del items[pk]
    if changed:
        for table in tables.values():
            table["ItemCount"] = sum(len(sorted_items) for sorted_items in table["items"].values())
    return changed


def merge_executions(state: dict[str, Any], changes: Iterable[Any]) -> bool:
    """Apply `changes`, each an execution's status, to Step Functions' state; return True if the state lacked one."""
    last: dict[str, dict[str, Any]] = {}
    for change in changes:
        last[change["executionArn"]] = {**last.get(change["executionArn"], {}), **change}
    changed = False
    for arn, change in last.items():
        _, _, _, region, account, _ = arn.split(":", 5)
        known = state["executions"].get_scoped(account, region, arn, {})
        merged = {"events": [], **known, **change}
        merged["events"] = known.get("events", merged["events"])
        changed = changed or merged["status"] != known.get("status")
        state["executions"].set_scoped(account, region, arn, merged)
    return changed


def install() -> None:
    """Record every later change of the emulator in this process. Call it before the emulator starts."""
    persistence = importlib.import_module("ministack.core.persistence")
    folder = Path(persistence.STATE_DIR).parent
    _keep_items(ChangeFile(folder / "changes/dynamodb.jsonl"))
    _keep_executions(ChangeFile(folder / "changes/stepfunctions.jsonl"))
    signal.signal(
        KEEP, lambda *_: asyncio.get_running_loop().call_soon_threadsafe(_save, persistence, folder / "kept")
    )


def _keep_items(file: ChangeFile) -> None:
    """Write the changes of a request before its answer. DynamoDB's own background changes are written at once."""
    dynamodb: Any = importlib.import_module("ministack.services.dynamodb")
    forget = _forgetting(dynamodb, "dynamodb", file)
    set_item, remove_item, handle = dynamodb._set_item, dynamodb._remove_item, dynamodb.handle_request
    of_request: ContextVar[list[Any] | None] = ContextVar("of_request", default=None)

    def note(table: dict[str, Any], pk: str, sk: str, item: Any) -> None:
        change = [table["TableId"], pk, sk, item]
        changes = of_request.get()
        if changes is None:
            file.append([change])
        else:
            changes.append(change)

    def set_and_note(table: dict[str, Any], pk: str, sk: str, item: Any) -> Any:
        old = set_item(table, pk, sk, item)
        note(table, pk, sk, item)
        return old

    def remove_and_note(table: dict[str, Any], pk: str, sk: str) -> Any:
        old = remove_item(table, pk, sk)
        note(table, pk, sk, None)
        return old

    async def handle_and_write(*request: Any) -> Any:
        changes: list[Any] = []
        token = of_request.set(changes)
        try:
            # No await in between, so that requests are written in the order in which they took effect.
            return await handle(*request)
        finally:
            of_request.reset(token)
            if changes:
                file.append(changes)
            if any(item is None and pk.startswith(_TEXTS) for _, pk, _, item in changes):
                forget()

    dynamodb._set_item, dynamodb._remove_item = set_and_note, remove_and_note
    dynamodb.handle_request = handle_and_write
    _merge_on_load(dynamodb, "dynamodb", merge_items, file)


def _forgetting(service: Any, name: str, file: ChangeFile) -> Callable[[], None]:
    """Return a function that schedules a write of the service's state and deletes the changes that it includes."""
    is_due = False

    def forget() -> None:
        nonlocal is_due
        is_due = False
        size = file.size()
        if _write(name, _settled(service.get_state)()):
            file.forget(size)

    def forget_soon() -> None:
        nonlocal is_due
        if not is_due:
            is_due = True
            asyncio.get_running_loop().call_later(_FORGET_S, forget)

    return forget_soon


def _write(name: str, state: Any) -> bool:
    """Write a service's state; return False if that failed, in which case the emulator has logged the error."""
    persistence: Any = importlib.import_module("ministack.core.persistence")
    path = Path(persistence.STATE_DIR, f"{name}.json")
    before = path.stat().st_mtime_ns if path.exists() else 0
    persistence.save_state(name, state)
    return path.exists() and path.stat().st_mtime_ns != before


def _keep_executions(file: ChangeFile) -> None:
    """Write an execution's status on every change, with its history at the start; later history may be lost."""
    states: Any = importlib.import_module("ministack.services.stepfunctions")
    emit = states._emit_execution_status_event

    def write_and_emit(execution: dict[str, Any]) -> None:
        began = execution["status"] == "RUNNING"
        file.append([{name: value for name, value in execution.items() if began or name != "events"}])
        emit(execution)

    states._emit_execution_status_event = write_and_emit
    _merge_on_load(states, "stepfunctions", merge_executions, file)


def _merge_on_load(service: Any, name: str, merge: Callable[..., bool], file: ChangeFile) -> None:
    """Apply the changes again when the service's state is read.

    Then start over with a state that includes them.
    """
    load = service.load_persisted_state

    def load_all(state: dict[str, Any]) -> None:
        try:
            changed = merge(state, file.read())
        except (ValueError, LookupError, TypeError) as error:
            # The emulator would log an Exception, continue without any state, and finally save that.
            raise SystemExit(f"the kept changes of {name} cannot be read: {error!r}") from error
        load(state)
        if changed and not _write(name, service.get_state()):
            return  # the changes stay
        file.clear()

    service.load_persisted_state = load_all


def _save(persistence: Any, kept: Path) -> None:
    app: Any = importlib.import_module("ministack.app")
    services = app._build_persistence_save_dict()
    persistence.save_all({name: _settled(get_state) for name, get_state in services.items()})
    kept.touch()


def _settled(get_state: Callable[[], Any]) -> Callable[[], Any]:
    """Return a reader of a service's state that reads again if a thread changed it meanwhile."""

    def read() -> Any:
        for _ in range(_TRIES):
            try:
                return get_state()
            except RuntimeError:  # dictionary changed size during iteration
                continue
        return get_state()

    return read
