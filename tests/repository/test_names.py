"""Public names of the library: one name means one thing."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.repository.test_house import ROOT, modules, write_modules

LAYER = ROOT / "layers/runtime/python"
USERS = tuple(
    ROOT / folder
    for folder in ("lambdas", "stepline_cdk", "docs", "bench", "exec_task", "bundles", "examples")
)
EXEMPT = {
    "main": "the entry of a module that runs as a program",
    "logger": "the logger of a module",
    "ENDPOINTS": "the rows of one area, which `api.endpoint_table` reads through its module",
    "event_source": "part of the public face, and a command",
    "export": "an operation of the API, and a command",
    "move_in": "an operation of the API, and a command",
    "install": "a patch of the emulator, called through its module",
}
"""Names of several modules, each for a reason."""


def doubled_names(root: Path, users: list[Path]) -> dict[str, list[str]]:
    """Map each public name of several modules to these modules.

    Functions and classes are public unless an underscore says otherwise, constants if another module imports them.
    A name that is always used through its module is not.
    """
    trees = {_module(path, root): ast.parse(path.read_text()) for path in modules(root)}
    others = [ast.parse(path.read_text()) for path in users]
    imported = {name for tree in (*trees.values(), *others) for name in _imported(tree)}
    through = {name for tree in (*trees.values(), *others) for name in _through(tree)} - imported
    homes: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for name, is_constant in _defined(tree):
            hidden = (module, name) not in imported if is_constant else (module, name) in through
            if not (hidden or name.startswith("_")):
                homes[name].append(module)
    return {name: found for name, found in sorted(homes.items()) if len(found) > 1}


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _defined(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield each name of a module once, and whether it is a constant."""
    seen = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found, is_constant = [node.name], False
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            is_constant = True
        else:
            continue
        yield from ((name, is_constant) for name in found if name not in seen)
        seen.update(found)


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def _through(tree: ast.Module) -> Iterator[tuple[str, str]]:
    homes = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield homes.get(node.value.id, ""), node.attr


def test_a_public_name_means_one_thing():
    found = doubled_names(LAYER, modules(*USERS))
    assert {name: homes for name, homes in found.items() if name not in EXEMPT} == {}


def test_a_doubled_name_is_found(tmp_path):
    write_modules(
        tmp_path,
        {
            "a.py": "LIMIT = 1\nOWN = 1\ndef read(): pass\ndef judge(): pass\ndef _hidden(): pass\n",
            "b.py": "LIMIT = 2\nOWN = 2\nclass read: pass\ndef judge(): pass\ndef _hidden(): pass\n",
            "c.py": "import a\nfrom a import LIMIT as A\nfrom b import LIMIT, judge\n",
            "d.py": "from x import a\na.judge()\n",
            "x/a.py": "def judge(): pass\n",
        },
    )
    assert doubled_names(tmp_path, []) == {"LIMIT": ["a", "b"], "judge": ["a", "b"], "read": ["a", "b"]}
