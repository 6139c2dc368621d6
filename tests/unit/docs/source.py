"""The repository as its tests see it: the files that belong to it, their text, their syntax trees."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "layers/runtime/python/stepline"
DOCS = ROOT / "docs"


@cache
def files() -> tuple[Path, ...]:
    """Return every file under version control, and every new one that is not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return tuple(ROOT / name for name in sorted(filter(None, listed)) if (ROOT / name).is_file())


def python_files(*folders: str) -> list[Path]:
    """Return the Python files, all of them or those below the folders."""
    roots = [ROOT / folder for folder in folders] or [ROOT]
    return [p for p in files() if p.suffix == ".py" and any(p.is_relative_to(root) for root in roots)]


def pages() -> list[Path]:
    """Return the Markdown pages of the documentation and of the top folder."""
    return [p for p in files() if p.suffix == ".md" and (p.parent == ROOT or p.is_relative_to(DOCS))]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes(paths: list[Path]) -> Iterator[tuple[Path, ast.AST]]:
    """Return every node of every file's tree."""
    for path in paths:
        for node in _walked(path):
            yield path, node


@cache
def _walked(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a file in a list: to walk a tree costs more than to parse it."""
    return tuple(ast.walk(tree(path)))


def called(node: ast.Call) -> str:
    """Return the last word of what a call calls."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def name(path: Path) -> str:
    """Return the path below the repository."""
    return path.relative_to(ROOT).as_posix()


def run_blocks(page, **names):
    """Run a page's blocks of Python one after the other; return their names."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    return names
