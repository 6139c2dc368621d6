"""Find, copy and test the bundle of the local stage.

It is found in the caller's folder, copied for the functions, and tested before it is deployed.
`python -m stepline.local.stage.bundle_code MODULE` is the test. It runs in a process of its own that sees
what functions see, and prints one JSON object: `{"notes": [...]}`, or `{"code", "message", "where"}`.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from stepline.errors import InputError, SteplineError
from stepline.local.stage.deployed import REPOSITORY, function_environment
from stepline.local.stage.emulator import Progress
from stepline.model.base import Value

DEFAULT: Final = "bundles.default"
TRIAL_S: Final = 60
_SHARED: Final = "bundles"
"""A package name that a project may use too; its modules are then placed beside ours."""

_TAKEN: Final = ("lambdas", "stepline", "bootstrap")
_LEFT_OUT: Final = ("__pycache__", "*.pyc", ".git", ".venv", "node_modules", ".stepline")
_CALLS: Final = {"knowledge_space_fn": ("query", 8), "knowledge_read_fn": ("ks:path",)}


class BundleCode(Value):
    """A bundle by its module.

    `folder` holds a copy of its top package, or is empty if the functions include it already.
    """

    module: str = DEFAULT
    folder: str = ""

    def context(self) -> dict[str, str]:
        """Return the bundle as context keys of the app."""
        if self.module == DEFAULT and not self.folder:
            return {}
        return {"bundle": self.module, **({"bundle_code": self.folder} if self.folder else {})}


def take_bundle(module: str, home: Path, progress: Progress, *, project: Path) -> BundleCode:
    """Copy the part of `project` that a bundle needs, and test it as the functions will load it.

    Raises InputError that names the problem and its place: `bundle_not_found`, `bundle_invalid`,
    `bundle_failed` if code of the bundle raises, and the errors of building an agent.
    """
    copies, source = home / "bundle", _find(module, project)
    if source is None:
        shutil.rmtree(copies, ignore_errors=True)
        if module == DEFAULT:
            return BundleCode()
        _try(module, REPOSITORY, home, project, progress)
        return BundleCode(module=module)
    folder = _copy(source, copies)
    _try(module, folder, home, project, progress)
    return BundleCode(module=module, folder=str(folder))


def _find(module: str, project: Path) -> Path | None:
    """Return the bundle's top package or module in the project's folder; None if it is not there."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise InputError(
            f"{module[:80]!r} is no module's name; the one of the folder bundles/shop is bundles.shop",
            code="bundle_not_found",
        )
    if parts[0] in _TAKEN:
        raise InputError(f"{parts[0]} is a package of the runtime's own", code="bundle_invalid")
    package = project / parts[0]
    if parts[0] == _SHARED:
        beside_ours = project.resolve() != REPOSITORY and _holds(package, parts[1:])
        return package if beside_ours else None
    if package.is_dir():
        return package
    single = project / f"{parts[0]}.py"
    return single if single.is_file() else None


def _holds(package: Path, names: Sequence[str]) -> bool:
    return any((package / f"{name}{end}").exists() for name in names[:1] for end in ("", ".py"))


def _copy(source: Path, copies: Path) -> Path:
    """Copy a package or module into a folder named by its content, and delete other copies.

    Return the folder.
    """
    shutil.rmtree(copies / "new", ignore_errors=True)
    fresh = copies / "new"
    fresh.mkdir(parents=True)
    if source.is_file():
        shutil.copy(source, fresh)
    else:
        ignore = shutil.ignore_patterns(*_LEFT_OUT)
        if source.name == _SHARED:
            shutil.copytree(REPOSITORY / _SHARED, fresh / _SHARED, ignore=ignore)
        shutil.copytree(source, fresh / source.name, ignore=ignore, dirs_exist_ok=True)
    digest = hashlib.sha256()
    for path in sorted(path for path in fresh.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(fresh)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    folder = copies / digest.hexdigest()[:16]
    for other in copies.iterdir():
        if other != fresh:
            shutil.rmtree(other)
    fresh.rename(folder)
    return folder


def _try(module: str, folder: Path, home: Path, project: Path, progress: Progress) -> None:
    """Load the bundle in `folder` as a function does. Raises InputError."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stepline.local.stage.bundle_code", module],
            cwd=folder,
            env=function_environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TRIAL_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{module} is not loaded after {TRIAL_S} s", code="bundle_failed") from error
    if done.returncode or not done.stdout:
        last = "".join(f": {line}" for line in done.stderr.splitlines()[-1:])
        raise InputError(f"{module} ends the process that loads it{last}", code="bundle_failed")
    said = json.loads(done.stdout)
    if "code" in said:
        looked = f"; looked in {project}, and among the packages of {sys.prefix}"
        where = said["where"] or (looked if said["code"].endswith("_not_found") else "")
        raise InputError(f"{said['message']}{where}", code=said["code"])
    for note in said["notes"]:
        progress(f"note: {note}")


def load(module: str) -> list[str]:
    """Load the bundle and build its agent; return notes for its author.

    Raises InputError, and errors of the bundle's code.
    """
    from stepline.bootstrap.memory_wiring import in_memory
    from stepline.bundle.workflow import BaseWorkflow, load_workflow
    from stepline.settings import Settings, env

    workflow = load_workflow(module)
    for name, arguments in _CALLS.items():
        if not _fits(getattr(workflow, name), arguments):
            raise InputError(
                f"{workflow.__name__}.{name} of {module} cannot be called with {len(arguments)} arguments: it is plain or "
                "static, since functions make no instance",
                code="bundle_invalid",
            )
    _ = in_memory(Settings.from_env(env(bundle=module))).agent
    if workflow.pre_run_hook is BaseWorkflow.pre_run_hook:
        return []
    return [f"{workflow.__name__}.pre_run_hook runs in turns of a process; functions do not call it yet"]


def _fits(function: Callable[..., object] | None, arguments: Sequence[object]) -> bool:
    if function is None:
        return True
    try:
        signature = inspect.signature(function)
    except ValueError:  # a C function without a signature
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def explain(error: BaseException, folder: Path) -> dict[str, str]:
    """Return an error for the parent process: one of ours unchanged, another with its place in the bundle."""
    if isinstance(error, SteplineError):
        return {"code": error.reason, "message": str(error), "where": ""}
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
    own = [
        f" ({Path(name).relative_to(folder)}, line {line})"
        for name, line in places
        if Path(name).is_relative_to(folder) and not Path(name).is_relative_to(sys.prefix)
    ]
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    message = f"the bundle fails while it is loaded: {type(error).__name__}: {said}"
    return {"code": "bundle_failed", "message": message, "where": own[-1] if own else ""}


def main() -> None:
    """Test the bundle named on the command line."""
    said: dict[str, object]
    with contextlib.redirect_stdout(sys.stderr):  # a bundle may print
        try:
            said = {"notes": load(sys.argv[1])}
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told, and it ends this process
            said = {**explain(error, Path.cwd())}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
