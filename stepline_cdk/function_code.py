"""The code of an agent's functions: our handlers and layers, a layer with what its bundles require, and packages that are elsewhere."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from stepline.bundle.knowledge_index import FOLDER
from stepline.local.install.package import link_same
from stepline.local.install.requirement_lock import check_size, find_requirements, lock_requirements
from stepline_cdk.code import Code
from stepline_cdk.stage import Stage

OURS: Final = "bundles"
"""The package of bundles that is among the handlers."""
CACHE: Final = "__pycache__"


def make_code(root: Path, stage: Stage, compiler: Path | None) -> Code:
    """Return the code for AWS, made from the app's files in `root`; what its layers and this environment share is stored once.

    Raises SteplineError if the packages of the bundles cannot be a layer.
    """
    files = find_bundle_requirements(root, stage.modules)
    packages = lock_requirements(files, root / ".stepline/packages", root=root, version=stage.python)
    code = Code.for_aws(
        root,
        version=stage.python,
        compiler=compiler,
        tracing=root / "layers/tracing" if stage.is_traced else None,
        bundle=packages.lock,
        shared=packages.shared,
        # The image of programs is built from `root`.
        requirements=tuple(file.relative_to(root).as_posix() for file in files if file.is_relative_to(root)),
    )
    check_size(*code.bundle_bytes(), files)
    for folder in (*code.layers[1:], *code.acting):
        link_same(folder / "python", Path(sysconfig.get_path("purelib")))
    return code


def find_bundle_requirements(root: Path, modules: Iterable[str]) -> tuple[Path, ...]:
    """Return the files with the packages that bundles require: of `bundles` those below `root`, of others those where they are."""
    places = ((_place_of(root, module), module) for module in modules)
    found = (file for place, module in places if place for file in find_requirements(place, [module]))
    return tuple(dict.fromkeys(found))


def _place_of(root: Path, module: str) -> Path | None:
    """Return the folder in which the top of a bundle's package is."""
    top = module.partition(".")[0]
    folder = root / top if top == OURS else next(iter(_folders(top)), None)
    return folder.parent if folder else None


def read_bundles(stage: Stage) -> dict[str, bytes]:
    """Return the files of the bundles' packages that are not among the handlers, by their paths there.

    Hidden ones are left out, but for the index of documents.
    """
    tops = {module.partition(".")[0] for module in stage.modules} - {OURS}
    return {name: body for top in sorted(tops) for name, body in _read_package(top).items()}


def _read_package(name: str) -> dict[str, bytes]:
    """Return the files of an importable package, as they are found by this interpreter; a module is one file."""
    spec = find_spec(name)
    places = _folders(name)
    if spec and spec.origin and not places:
        return {Path(spec.origin).name: Path(spec.origin).read_bytes()}
    return {
        f"{name}/{path.relative_to(place).as_posix()}": path.read_bytes()
        for place in places
        for path in sorted(place.rglob("*"))
        if path.is_file() and not any(map(_is_left_out, path.relative_to(place).parts))
    }


def _folders(package: str) -> list[Path]:
    spec = find_spec(package)
    return [Path(place) for place in (spec.submodule_search_locations if spec else None) or ()]


def _is_left_out(name: str) -> bool:
    return name == CACHE or (name.startswith(".") and name != FOLDER)
