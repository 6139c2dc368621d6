"""The Landlock domain in real processes, with the rights of every version up to that of this kernel."""

import errno

import pytest

from exec_task.executor import landlock
from tests.support.temporary import open_folder
from tests.unit.exec_task.executor.jailed import linux, run_jailed

ABI = landlock.kernel_abi()
pytestmark = [linux, pytest.mark.skipif(ABI == 0, reason="this kernel has no Landlock")]

SYSTEM = ["/usr", "/lib", "/lib64", "/etc", "/proc", "/nowhere/at/all"]

TRY = """
def attempt(name, call):
    try:
        call()
        found[name] = "done"
    except OSError as error:
        found[name] = error.errno
"""


@pytest.fixture
def rooms():
    """Three folders that every uid may use: one to read, one to write, one outside; each holds a file."""
    with open_folder() as folder:
        for name in ("read", "write", "outside"):
            room = folder / name
            room.mkdir()
            (room / "file").write_text("text")
            (room / "file").chmod(0o666)
            room.chmod(0o777)
        yield folder


def files(rooms, *, abi=None):
    chosen = "" if abi is None else f"landlock.kernel_abi = lambda: {abi}"
    return run_jailed(
        TRY
        + f"""
base = {str(rooms)!r}
for room in ("read", "write", "outside"):
    attempt(f"read in {{room}}", lambda: open(f"{{base}}/{{room}}/file").read())
    attempt(f"write in {{room}}", lambda: open(f"{{base}}/{{room}}/file", "a").write("more"))
    attempt(f"create in {{room}}", lambda: open(f"{{base}}/{{room}}/new", "x").close())
    attempt(f"list {{room}}", lambda: os.listdir(f"{{base}}/{{room}}"))
    attempt(f"link into {{room}}", lambda: os.symlink("/etc", f"{{base}}/{{room}}/link"))
attempt("write to null", lambda: open("/dev/null", "w").write("x"))
attempt("move out", lambda: os.rename(f"{{base}}/write/new", f"{{base}}/outside/moved"))
""",
        before=chosen,
        read=[*SYSTEM, str(rooms / "read")],
        write=[str(rooms / "write"), "/dev/null"],
    )


@pytest.mark.parametrize("abi", range(1, ABI + 1))
def test_files_are_open_as_far_as_they_were_named(rooms, abi):
    done = files(rooms, abi=abi)
    assert done.isolation["landlock_abi"] == abi, done
    assert done.found == {
        "read in read": "done",
        "write in read": errno.EACCES,
        "create in read": errno.EACCES,
        "list read": "done",
        "link into read": errno.EACCES,
        "read in write": "done",
        "write in write": "done",
        "create in write": "done",
        "list write": "done",
        "link into write": "done",
        "read in outside": errno.EACCES,
        "write in outside": errno.EACCES,
        "create in outside": errno.EACCES,
        "list outside": errno.EACCES,
        "link into outside": errno.EACCES,
        "write to null": "done",
        "move out": done.found["move out"],
    }
    assert done.found["move out"] in (errno.EXDEV, errno.EACCES)


def test_without_paths_the_files_are_left_to_the_mounts(rooms):
    done = run_jailed(f"found['text'] = open({str(rooms / 'outside' / 'file')!r}).read()")
    assert done.found == {"text": "text"}
    assert done.isolation["landlock_abi"] == ABI


@pytest.mark.skipif(landlock.SIGNAL_SCOPE_ABI > ABI, reason="this Landlock has no scopes")
def test_abstract_sockets_from_before_cannot_be_reached_and_own_ones_can():
    done = run_jailed(
        TRY
        + """
import socket
inner = socket.socket(socket.AF_UNIX); inner.bind(b"\\0stepline inner"); inner.listen()
attempt("inner", lambda: socket.socket(socket.AF_UNIX).connect(b"\\0stepline inner"))
attempt("outer", lambda: socket.socket(socket.AF_UNIX).connect(b"\\0stepline outer"))
""",
        before="import socket; outer = socket.socket(socket.AF_UNIX)\n"
        "outer.bind(b'\\0stepline outer'); outer.listen()\n"
        "if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))",
    )
    assert done.found == {"inner": "done", "outer": errno.EPERM}, done.stderr


@pytest.mark.skipif(landlock.SIGNAL_SCOPE_ABI > ABI, reason="this Landlock has no scopes")
def test_a_signal_stays_in_the_domain_even_without_protected_processes():
    done = run_jailed(
        TRY + "attempt('parent', lambda: os.kill(os.getppid(), 0))",
        before="if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))",
    )
    assert done.found == {"parent": errno.EPERM}


def test_a_kernel_without_landlock_is_version_0():
    assert landlock.restrict(["/usr"], [], abi=0) == 0
