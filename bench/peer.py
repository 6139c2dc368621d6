"""The peer's own environment and process, and programs with the minimal work of a round."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import venv
from contextlib import closing
from pathlib import Path
from typing import Self

from bench.conversation import prose
from bench.timing import cpu_ms

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".stepline" / "bench-env"
REQUIREMENTS = HERE / "requirements.txt"
INSTALL_S = 600
SEGMENT_BLOCKS = 256


class NoPeerError(Exception):
    """The peer is not available here; the message says why."""


class LangGraph:
    """LangGraph in a process of its own, which takes samples on request."""

    def __init__(self) -> None:
        """Start the process and take a first sample; build its environment if needed. Raises NoPeerError."""
        python = build_environment()
        self._process = subprocess.Popen(
            [python, str(HERE / "langgraph_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bytes: dict[tuple[str, int], float] = {}
        self.sample("whole", 10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def sample(self, channel: str, blocks: int) -> float:
        """Return the CPU milliseconds of one round; the size of its writes is in `bytes`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(channel, blocks, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise NoPeerError(f"the peer's process ended with {self._process.wait()}")
        found = json.loads(answer)
        self.bytes[channel, blocks] = found["bytes"]
        return float(found["cpu_ms"])


def build_environment() -> str:
    """Return the environment's interpreter; install it if the requirements have changed."""
    python, made_from = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "requirements.txt"
    if made_from.exists() and made_from.read_bytes() == REQUIREMENTS.read_bytes():
        return str(python)
    print(f"installing the peer into {ENVIRONMENT.relative_to(HERE.parent)}", file=sys.stderr)
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
    try:
        subprocess.run(
            [*pip, "-r", str(REQUIREMENTS)], check=True, timeout=INSTALL_S, capture_output=True, text=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        words = str(error.stderr or error).strip().splitlines()
        raise NoPeerError(f"the peer cannot be installed: {words[-1]}") from error
    shutil.copy(REQUIREMENTS, made_from)
    return str(python)


class Splice:
    """The limit of a resumed round: rendered blocks in SQLite, read, joined, two more put, committed to disk.

    With `segment_blocks`, old blocks are stored that many per row, and only the rest individually.
    """

    def __init__(self, folder: Path, *, segment_blocks: int = 1) -> None:
        """Store databases in `folder`."""
        self._folder = folder
        self._segment_blocks = segment_blocks
        self._body = json.dumps({"type": "text", "text": prose(500)})

    def sample(self, blocks: int) -> float:
        """Return the CPU milliseconds of one round over this many blocks."""
        path = self._folder / f"{self._segment_blocks}-{blocks}.db"
        if not path.exists():
            self._seed(path, blocks)
        spent_ms = cpu_ms(lambda: self._round(path, blocks))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM row WHERE n > ?", (blocks,))
        return spent_ms

    def _round(self, path: Path, blocks: int) -> str:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            bodies = [body for (body,) in connection.execute("SELECT body FROM row ORDER BY n")]
            request = f'{{"messages":[{{"role":"user","content":[{",".join(bodies)}]}}]}}'
            new = [(blocks + 1, self._body), (blocks + 2, self._body)]
            with connection:
                connection.executemany("INSERT INTO row VALUES (?, ?)", new)
        return request

    def _seed(self, path: Path, blocks: int) -> None:
        size = self._segment_blocks
        sealed = blocks // size * size if size > 1 else 0
        rows = [(n, ",".join([self._body] * size)) for n in range(size, sealed + 1, size)]
        rows += [(n, self._body) for n in range(sealed + 1, blocks + 1)]
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE row (n INTEGER PRIMARY KEY, body TEXT)")
            connection.executemany("INSERT INTO row VALUES (?, ?)", rows)
