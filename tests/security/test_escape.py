"""The escape suite: named attempts to leave the sandbox, made on every backend; the list and the count are printed.

Most attempts share a run, each in a child process; those that need a run of their own are single attempts.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.security.escape.single_attempt import SINGLE_ATTEMPTS, Secrets
from tests.support.bundle_on_disk import bundle_on_disk
from tests.support.temporary import open_folder

from .escape.backend import (
    LIMITS,
    SECRET,
    TURN,
    Backend,
    docker_backend,
    process_backend,
    refused_process_backend,
    refused_task_backend,
    task_backend,
)
from .escape.drift import DRIFTS, find_drift
from .escape.table import BATCHES, expected, render_host, render_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux")

BACKENDS = {
    "process": process_backend,
    "docker split": lambda: docker_backend("split"),
    "docker combined": lambda: docker_backend("combined"),
    "fargate": task_backend,
    "process, ENOSYS": refused_process_backend,
    "fargate, EPERM": refused_task_backend,
}
OWN_CHILD = """
import os, signal
child = os.fork()
if child == 0:
    signal.pause()
    os._exit(0)
os.kill(child, 9)
open("outputs/fine.txt", "w").write(str(os.waitpid(child, 0)[1]))
"""
ATTEMPTS = [(batch, name) for batch in BATCHES for name in expected(batch)]


class AttackedBackend:
    """One backend, what lies around it, and what has come of the attempts so far."""

    def __init__(self, backend: Backend, folder: Path, abstract: str) -> None:
        self.backend = backend
        self.secrets = Secrets(world_readable=str(folder / "readable"), secret=SECRET)
        self.verdicts: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self._host = {
            "world_readable": self.secrets.world_readable,
            "root_only": str(folder / "root"),
            "abstract": abstract,
        }
        self._outcomes: dict[str, dict[str, Any]] = {}

    def outcome(self, batch: str, name: str) -> Any:
        """Return what an attempt came to; the first of a batch makes them all."""
        if batch not in self._outcomes:
            host = render_host(self.backend.servers(), self._host, SECRET, LIMITS.max_file_bytes)
            done = self.backend.run(render_program(batch, host))
            assert not done.run.error, f"{done.run.error}: {done.run.program_log}"
            assert SECRET not in done.run.program_log
            self._outcomes[batch] = json.loads(done.files[f"{TURN}/outputs/outcomes.json"])
        return self._outcomes[batch][name]


@pytest.fixture(scope="module", params=BACKENDS)
def attacked(request: pytest.FixtureRequest) -> Iterator[AttackedBackend]:
    """A backend with a secret in its environment, in files beside it and in its bundle, and a socket in use."""
    abstract = f"escape-{os.getpid()}"
    with (
        open_folder() as folder,
        pytest.MonkeyPatch.context() as patch,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        for name, mode in (("readable", 0o644), ("root", 0o600)):
            (folder / name).write_text(SECRET)
            (folder / name).chmod(mode)
        patch.setenv("STEPLINE_ESCAPE_SECRET", SECRET)
        listener.bind(f"\0{abstract}")
        listener.listen()
        with bundle_on_disk(SECRET), BACKENDS[request.param]() as backend:
            yield AttackedBackend(backend, folder, abstract)


@pytest.mark.parametrize(("batch", "name"), ATTEMPTS, ids=[name for _, name in ATTEMPTS])
def test_an_attempt_is_stopped(attacked, batch, name):
    found, drift = attacked.outcome(batch, name), find_drift(attacked.backend.name, name)
    stopped = found in (drift.outcomes if drift else expected(batch)[name])
    attacked.verdicts[name] = f"stopped ({found})" if stopped else f"NOT STOPPED: {found}"
    if drift and stopped:
        attacked.verdicts[name] = f"drift ({str(found).strip()})"
        attacked.reasons[name] = drift.reason
    assert stopped, f"{name} on {attacked.backend.name} came to {found!r}"


@pytest.mark.parametrize("attempt", SINGLE_ATTEMPTS, ids=[attempt.__doc__ for attempt in SINGLE_ATTEMPTS])
def test_an_attempt_with_its_own_run_is_stopped(attacked, attempt):
    attacked.verdicts[attempt.__doc__] = "NOT STOPPED"
    drift = find_drift(attacked.backend.name, attempt.__doc__)
    played = drift.attempt if drift and drift.attempt else attempt
    played(attacked.backend, attacked.secrets)
    attacked.verdicts[attempt.__doc__] = "drift" if drift else "stopped"
    if drift:
        attacked.reasons[attempt.__doc__] = drift.reason


def test_every_drift_is_of_an_attempt_that_is_made():
    made = {name for _, name in ATTEMPTS} | {attempt.__doc__ for attempt in SINGLE_ATTEMPTS}
    assert DRIFTS.keys() <= BACKENDS.keys()
    assert all(drifts.keys() <= made for drifts in DRIFTS.values())


def test_the_backend_serves_the_next_run_after_all_of_it(attacked, capsys):
    """It ends a child of its own, which needs no Landlock; what its host refused is in the report."""
    done = attacked.backend.run(OWN_CHILD)
    assert (done.run.error, done.files) == ("", {f"{TURN}/outputs/fine.txt": b"9"})
    assert done.run.isolation.seccomp
    assert done.run.isolation.no_new_privs
    _, _, code = attacked.backend.name.partition(", ")
    refused = ("close_range", "landlock_create_ruleset") if code else ()
    assert done.run.isolation.refused == tuple(f"{call}: {code}" for call in refused)
    assert not code or done.run.isolation.landlock_abi == 0
    stopped = sum(verdict.startswith("stopped") for verdict in attacked.verdicts.values())
    lines = [
        f"{attacked.backend.name}: {done.run.isolation}",
        *(f"  {verdict:28} {name}" for name, verdict in attacked.verdicts.items()),
        f"{stopped} of {len(attacked.verdicts)} attempts stopped on {attacked.backend.name}",
        *(f"  drift: {name}: {reason}" for name, reason in attacked.reasons.items()),
        *(f"  drift: {line}" for line in attacked.backend.drift),
    ]
    with capsys.disabled():
        sys.stdout.write("\n".join(["", "", *lines, ""]))


def test_the_attempts_do_get_out_where_nothing_holds_them(tmp_path):
    """The suite can fail: the same programs, run by an ordinary interpreter, are reported as escapes."""
    planted = tmp_path / "planted"
    planted.write_text(SECRET)
    abstract = f"escape-free-{os.getpid()}"
    free = {
        "network": [
            "an IPv4 stream socket",
            "an IPv6 datagram socket",
            "a netlink socket",
            "a socket that the host listens on in the abstract namespace",
        ],
        "files": ["a world-readable file of the host", "executing a file that it wrote"],
        "kernel": [
            "the processors of the first process" if os.geteuid() == 0 else "another personality",
            "disk beyond a file's end",
            "contexts for I/O, of which the machine has few",
            "memory in files of no folder",
        ],
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{abstract}")
        listener.listen()
        for batch, names in free.items():
            host = render_host([], {"world_readable": str(planted), "abstract": abstract}, SECRET, 1 << 20)
            program = render_program(batch, host, only=names)
            done = subprocess.run(
                [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            found = json.loads((tmp_path / "outputs/outcomes.json").read_text())
            assert list(found) == names
            for name in names:
                assert found[name] not in expected(batch)[name]
