"""Mutants of the library: mutmut's mutators make them, a seed draws them, and a name finds one again after a move.

A name holds the package, the function and the changed text, never the file: `timeline.fold_blocks: < -> <=`. A number
follows where a function has the same change more than once. Source: https://mutmut.readthedocs.io.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import libcst as cst
from mutmut.mutation.file_mutation import create_mutations

ROOT: Final = Path(__file__).resolve().parents[2]
LIBRARY: Final = ROOT / "layers/runtime/python"
PACKAGES: Final = ("context", "log", "loop", "protocol", "timeline")
SHOWN_CHARS: Final = 48
"""A longer text is shown by what changed in it."""
_WORDS: Final = re.compile(r"\w+|\W")


class Mutant(NamedTuple):
    """One change of one function. `path` is the module, from `LIBRARY`."""

    name: str
    path: str
    module: cst.Module
    old: cst.CSTNode
    new: cst.CSTNode

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def function(self) -> str:
        """Return the function's name with its class, without the package."""
        return self.name.partition(":")[0].partition(".")[2]

    def text(self) -> str:
        """Return the module's text with the change."""
        changed = self.module.deep_replace(self.old, self.new)
        assert isinstance(changed, cst.Module)
        return changed.code


def files_of(package: str) -> list[Path]:
    return sorted((LIBRARY / "stepline" / package).rglob("*.py"))


def list_mutants(package: str, files: Iterable[Path]) -> list[Mutant]:
    """Return the mutants of functions in files of one package, but for defaults, which are no code of a function."""
    seen: Counter[str] = Counter()
    found = []
    for file in files:
        module, mutations, _, _ = create_mutations(str(file), file.read_text())
        names = dict(_functions(module.body))
        heads = {node for function in names for node in _below(function.params)}
        for mutation in mutations:
            function = mutation.contained_by_top_level_function
            if function not in names or mutation.original_node in heads:
                continue
            change = _label(
                module.code_for_node(mutation.original_node), module.code_for_node(mutation.mutated_node)
            )
            name = f"{package}.{names[function]}: {change}"
            seen[name] += 1
            numbered = name if seen[name] == 1 else f"{name} ({seen[name]})"
            path = file.relative_to(LIBRARY).as_posix()
            found.append(Mutant(numbered, path, module, mutation.original_node, mutation.mutated_node))
    return found


def draw(names: Iterable[str], seed: str, count: int) -> list[str]:
    """Draw by name: a mutant that is drawn stays drawn, whatever becomes of the others."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())[:count]


def find(name: str) -> Mutant | None:
    """Return a mutant by its name, None if the library has it no longer."""
    package, _, rest = name.partition(".")
    function = rest.partition(":")[0].rpartition(".")[2]
    files = [file for file in files_of(package) if f"def {function}(" in file.read_text()]
    return next((mutant for mutant in list_mutants(package, files) if mutant.name == name), None)


def _functions(body: Sequence[cst.CSTNode], owner: str = "") -> Iterator[tuple[cst.FunctionDef, str]]:
    for node in body:
        if isinstance(node, cst.FunctionDef):
            yield node, owner + node.name.value
        elif isinstance(node, cst.ClassDef):
            yield from _functions(node.body.body, f"{owner}{node.name.value}.")


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _below(child)


def _label(old: str, new: str) -> str:
    old, new = " ".join(old.split()), " ".join(new.split())
    if max(len(old), len(new)) > SHOWN_CHARS and new != "None":
        olds, news = _WORDS.findall(old), _WORDS.findall(new)
        start = _common(olds, news)
        end = _common(olds[start:][::-1], news[start:][::-1])
        old, new = "".join(olds[start : len(olds) - end]), "".join(news[start : len(news) - end])
    return f"{_shown(old)} -> {_shown(new)}"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shown(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return text or "nothing"
    return f"{text[:SHOWN_CHARS]}…{hashlib.sha256(text.encode()).hexdigest()[:6]}"
