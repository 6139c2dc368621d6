"""Runs programs as an ordinary user: started as root, it gives up root first. Argument: an interpreter to use."""

import os
import sys
from pathlib import Path

import msgspec

from stepline.model.program.execution import Run, RuntimeProfile
from stepline.ports.executor import Job
from tests.contract.executor_jobs import bench_of, process_bench, tool_host

UID = 54321

PROGRAMS = {
    "identity": "import os; print(os.getuid(), os.getgid(), os.getgroups())",
    "processes": "import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))",
    "tool": "print(ctx_tools.fetch_ctx('ar:turn_0001.user.prompt')['ret']['text'])",
    "init": (
        "import os\n"
        "for act in (lambda: open('/proc/1/mem', 'rb'), lambda: open('/proc/1/environ', 'rb'), lambda: os.kill(1, 9)):\n"
        "    try:\n        print(act())\n    except PermissionError:\n        print('refused')\n"
    ),
    "socket": "try:\n    open('/workspace/socket/mine', 'w')\nexcept OSError as error:\n    print(error.strerror)",
    "bundle": (
        "import os\n"
        "for act in (lambda: open(f'{BUNDLE_ROOT}/mine', 'w'), lambda: os.chmod(f'{BUNDLE_ROOT}/guide/roses.md', 0o666)):\n"
        "    try:\n        print(act())\n    except OSError as error:\n        print(error.strerror)\n"
        "print(open(f'{BUNDLE_ROOT}/guide/roses.md').read())"
    ),
    "shut": "import os; os.makedirs('outputs/shut/in'); open('outputs/sums', 'w').write('1'); os.chmod('outputs/shut', 0)",
    "next": "print('next')",
}


class Idle:
    """A backend that never runs anything."""

    backend: str = ""

    def run(self, job: Job) -> Run:
        raise NotImplementedError

    def close(self) -> None:
        return


def main() -> None:
    with bench_of(Idle(), RuntimeProfile()) as bench:  # imports the modules that only root may read here
        tool_host(bench.job("")).call("ctx_tools.fetch_ctx", {"path": "ar:turn_0001.user.prompt"})
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.environ.pop("TMPDIR", None)  # noqa: TID251 - root's folder may be closed to this user
    with process_bench(python=Path(sys.argv[1])) as bench:
        runs = {name: bench.run(code) for name, code in PROGRAMS.items()}
    sys.stdout.buffer.write(msgspec.json.encode(runs))


if __name__ == "__main__":
    main()
