"""How-to guides as tests: the blocks of a page of docs/how-to or examples, run in their order in a fresh project.

A block is run by its language: `python` in this process, where names last to the page's end and a top-level `await` is
allowed; `sh` in a shell, whose folder, exported variables and functions last; `console` command by command, the output
compared. A block that names a file is written: in its first line (`# shop/tools.py`), in the sentence before it
(`shop/tools.py`:), or in a comment before it, which no reader of the page sees:

    <!-- file: PATH -->          written to this file
    <!-- add to: PATH -->        added to the end of this file
    <!-- output -->              what the last Python block prints
    <!-- on the stage -->        run by tests/e2e/test_guide.py
    <!-- not run: REASON -->     only read: its shell code parses, and its options of `stepline` exist

In shown output `…` is anything, alone on a line any lines. A command whose output begins with `error:` is expected to fail.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, NamedTuple

import pytest

from stepline.bundle.parts import load_skills, load_tools

_BLOCK: Final = re.compile(r"^( *)```(\w*)[^\n`]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_NOTE: Final = re.compile(r"<!-- (not run|file|add to|output|on the stage)(?:: (.+))? -->")
_FIRST_LINE: Final = re.compile(r"# ([\w./-]+\.\w+)\n")
_SENTENCE: Final = re.compile(r"`([\w./-]+\.\w+)`:$")
_SHELLS: Final = ("sh", "bash")
Run = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a coroutine of the page to its end."""
_RUN: Final = ("python", "console", *_SHELLS)
_HOMES: Final = {"HOME", "STEPLINE_HOME"}
"""Variables that a module keeps when it is imported: another test would find a page's."""
EXAMPLES: Final = Path(__file__).parents[2] / "examples"
_PATH: Final = f"{Path(sys.executable).parent}:{os.defpath}"
_STATE: Final = """
test -f {state} && . {state}
set -euo pipefail
{script}
set +u; {{ export -p; declare -f; printf 'cd %q\\n' "$PWD"; }} >{state}
"""


def copy_examples(project: Path) -> None:
    """Put the folder of examples into a project, as a checkout has it, without what their commands make."""
    made = shutil.ignore_patterns(".knowledge", "__pycache__", "node_modules", "dist", "cdk.out")
    shutil.copytree(EXAMPLES, project / "examples", ignore=made)


class Block(NamedTuple):
    """A fenced block: its line, language and text, and how it is run.

    `kind` is a comment's word, `file`, `run`, or "" for a block without one; `word` is the path or the reason.
    """

    line: int
    language: str
    text: str
    kind: str
    word: str = ""


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        language, body = found[2], dedent(found[3])
        before = text[: found.start()].rstrip().rpartition("\n")[2].strip()
        yield Block(text.count("\n", 0, found.start()) + 2, language, body, *_kind(language, body, before))


def _kind(language: str, body: str, before: str) -> tuple[str, str]:
    if note := _NOTE.fullmatch(before):
        return note[1], note[2] or ""
    if named := _SENTENCE.search(before):
        return "file", named[1]
    if language not in _SHELLS and (named := _FIRST_LINE.match(body)):
        return "file", named[1]
    return ("run" if language in _RUN else ""), ""


class Guide:
    """A page and the project in which it runs; `names` are those of its Python.

    `environment` is that of its shell and, except for its homes, of its Python. With `on_stage` the blocks for the stage
    are run, and other blocks of Python left out.
    """

    def __init__(
        self, page: Path, project: Path, environment: Mapping[str, str], *, on_stage: bool = False
    ) -> None:
        """Run nothing yet."""
        self.names: dict[str, Any] = {}
        self._page, self._project, self._on_stage = page, project, on_stage
        self._state = project.with_name(f"{project.name}.state")
        self._environment = {"HOME": str(project), "PATH": _PATH, **environment}
        self._printed = ""

    def follow(self) -> None:
        """Run the page. Raises AssertionError with the line of the block that fails."""
        with self._in_project() as run:
            for block in blocks_of(self._page):
                try:
                    self._follow(block, run)
                except Exception as error:
                    error.add_note(f"{self._page}, line {block.line}:\n{block.text}")
                    raise

    def write_files(self) -> None:
        """Write the page's files, and run nothing."""
        for block in blocks_of(self._page):
            if block.kind in ("file", "add to"):
                self._write(block)

    def _follow(self, block: Block, run: Run) -> None:
        match block.kind:
            case "file" | "add to":
                self._write(block)
            case "output":
                compare(block.text, self._printed)
            case "run" | "on the stage" if block.kind == "run" or self._on_stage:
                if block.language == "console":
                    self._converse(block.text)
                elif block.language in _SHELLS:
                    self.shell(block.text)
                elif block.kind == "on the stage" or not self._on_stage:
                    self._execute(block, run)

    def _write(self, block: Block) -> None:
        path = self.folder / block.word
        path.parent.mkdir(parents=True, exist_ok=True)
        before = f"{path.read_text(encoding='utf-8')}\n\n" if block.kind == "add to" and path.exists() else ""
        path.write_text(before + block.text, encoding="utf-8")

    @property
    def folder(self) -> Path:
        """The folder of the page's shell."""
        if not self._state.exists():
            return self._project
        return Path(shlex.split(self._state.read_text(encoding="utf-8").splitlines()[-1])[1])

    # --- shell

    def shell(self, script: str, *, fails: bool = False) -> str:
        """Run a script; return its output."""
        done = subprocess.run(
            ["bash", "-c", _STATE.format(state=shlex.quote(str(self._state)), script=script)],
            cwd=self._project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert bool(done.returncode) == fails, f"{script}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def _converse(self, transcript: str) -> None:
        for command, shown in commands_of(transcript):
            compare(shown, self.shell(command, fails=shown.startswith("error:")))

    # --- Python

    @contextlib.contextmanager
    def _in_project(self) -> Iterator[Run]:
        """Give Python the project's folder, modules and environment, and restore them afterwards.

        Its loop runs in a separate thread: tests of the page keep that of their browser running in this one.
        """
        loop = asyncio.Runner()
        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as thread:
            for name in self._environment.keys() - _HOMES:
                patch.setenv(name, self._environment[name])
            patch.chdir(self._project)
            patch.setattr(sys, "path", [*sys.path])
            try:
                yield lambda coroutine: thread.submit(loop.run, coroutine).result()
            finally:
                thread.submit(loop.close).result()
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(f"{self._project}/"):
                del sys.modules[name]
        load_tools.cache_clear()
        load_skills.cache_clear()

    def _execute(self, block: Block, run: Run) -> None:
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        code = compile(block.text, str(self._page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = eval(code, self.names)
            if code.co_flags & inspect.CO_COROUTINE:
                run(result)
        self._printed = printed.getvalue()


def commands_of(transcript: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console, each with its shown output."""
    first, *rest = re.split(r"^\$ ", transcript, flags=re.MULTILINE)
    assert not first, f"a console begins with a command: {first}"
    for one in rest:
        command, _, shown = one.partition("\n")
        while shown.startswith("> "):
            line, _, shown = shown.partition("\n")
            command += f"\n{line[2:]}"
        yield command, shown


def compare(shown: str, printed: str) -> None:
    """Compare the shown output of a page with the printed one."""
    pattern = "".join(map(_pattern, shown.strip().splitlines()))
    lines = "".join(f"{line.rstrip()}\n" for line in printed.strip().splitlines())
    assert re.fullmatch(pattern, lines), f"the page shows\n{shown}\nprinted was\n{printed}"


def _pattern(line: str) -> str:
    return r"(.*\n)*" if line == "…" else ".*".join(map(re.escape, line.rstrip().split("…"))) + r"\n"
