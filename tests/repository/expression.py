"""Every regular expression of the project. No tests here."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from re import _parser as parser  # type: ignore[attr-defined]  # the parsed form has no public name
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers/runtime/python"
SCANS = {"search", "finditer", "findall", "sub", "subn", "split"}
ALL_USES = frozenset({"scan", "match", "fullmatch"})


def all_calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of `re` in the project that takes an expression, with its location."""
    for folder in (
        "layers/runtime",
        "lambdas",
        "exec_task",
        "bundles",
        "examples",
        "stepline_cdk",
        "docs",
        "bench",
        "tests",
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for call in calls_of_re(ast.parse(path.read_text())):
                yield f"{path.relative_to(ROOT)}:{call.lineno}", call


def is_possessive(pattern: str, flags: int = 0) -> bool:
    """Return True if an expression has a possessive quantifier or an atomic group."""
    return "POSSESSIVE_REPEAT" in (made := repr(parser.parse(pattern, flags))) or "ATOMIC_GROUP" in made


class Expression(NamedTuple):
    """One expression: `name` is its module and variable, or its line; `uses` are the ways it is asked."""

    name: str
    pattern: str
    flags: int
    uses: frozenset[str]


def calls_of_re(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield every call of a function of `re` that takes an expression."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr not in {"escape", "purge", "error"}
        ):
            yield node


@functools.cache
def library_expressions() -> tuple[Expression, ...]:
    """Return the expressions of the library, with the ways in which each is used.

    Raises AssertionError for one that is made where nothing can find it: in a function, of what only it knows.
    """
    paths = sorted((LIBRARY / "stepline").rglob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in paths}
    everywhere = _uses(trees.values())
    found: dict[tuple[str, int], Expression] = {}
    for path, tree in trees.items():
        calls = list(calls_of_re(tree))
        if not calls:
            continue
        name = ".".join(path.relative_to(LIBRARY).with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(name)
        uses = {name: ways for name, ways in everywhere.items() if not name.startswith("_")}
        uses |= {name: ways for name, ways in _uses([tree]).items() if name.startswith("_")}
        for one in (*_of_module(module, uses), *_in_functions(module, tree)):
            before = found.get((one.pattern, one.flags))
            found[one.pattern, one.flags] = one._replace(uses=one.uses | before.uses) if before else one
    return tuple(found.values())


def _uses(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return the methods that are called on each name, wherever it is."""
    uses: dict[str, set[str]] = {}
    for node in itertools.chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.Attribute) and node.attr in {*SCANS, "match", "fullmatch"}:
            owner = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            uses.setdefault(name, set()).add("scan" if node.attr in SCANS else node.attr)
    return uses


def _of_module(module: ModuleType, uses: dict[str, set[str]]) -> Iterator[Expression]:
    for name, value in vars(module).items():
        for pattern in _patterns(value):
            own = uses.get(name, set())
            flags = pattern.flags & ~re.UNICODE
            yield Expression(f"{module.__name__}.{name}", pattern.pattern, flags, frozenset(own) or ALL_USES)


def _patterns(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif isinstance(value, dict):
        yield from _patterns((*value, *value.values()))
    elif isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from _patterns(one)


def _in_functions(module: ModuleType, tree: ast.Module) -> Iterator[Expression]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = ast.Module([statement for one in functions for statement in one.body], [])
    for call in calls_of_re(inner):
        try:
            pattern = eval(ast.unparse(call.args[0]), vars(module))
        except NameError as error:
            raise AssertionError(
                f"{module.__name__}:{call.lineno}: compile it at the top of a module"
            ) from error
        if isinstance(pattern, str):
            assert isinstance(call.func, ast.Attribute)
            flags = sum(
                eval(ast.unparse(one), {"re": re}) for one in call.args[1:] if "re." in ast.unparse(one)
            )
            use = "scan" if call.func.attr in SCANS else call.func.attr
            yield Expression(
                f"{module.__name__}:{call.lineno}",
                pattern,
                int(flags),
                ALL_USES if use == "compile" else frozenset({use}),
            )
