"""Find, copy and check the bundles of the local stage.

They are found in the caller's folder, copied for the functions, and checked before the deployment by `bundle_check`, in
a separate process that sees the same modules as functions.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.errors import InputError, SteplineError
from stepline.local.install.requirement_lock import find_requirements, lock_requirements
from stepline.local.knowledge.build_index import build_bundle
from stepline.local.stage.deployed import HOME, REPOSITORY, function_environment, install_environment
from stepline.local.stage.emulator import Progress
from stepline.model.base import Value

DEFAULT: Final = "bundles.default"
CHECKOUT_BUNDLES: Final = {"docs": "bundles.docs"}
"""Further bundles of a local stage, which comes from a checkout: an installed app lacks the documents of the first."""

CHECK_S: Final = 60
_SHARED: Final = "bundles"
"""A package name that a project may use too; its modules are then placed next to ours."""

OF_DEFAULT: Final[tuple[str, ...]] = (
    "STEPLINE_BUNDLE_PROPS",
    "STEPLINE_ASSEMBLY",
    "PLATFORM_DESCRIPTORS_DIR",
)
"""The caller's variables that a stage's own bundle is checked with; a further one has no properties of these."""

_RESERVED: Final = ("lambdas", "stepline", "bootstrap")
_LEFT_OUT: Final = ("__pycache__", "*.pyc", ".git", ".venv", "node_modules", ".stepline")


class BundleCode(Value):
    """The bundles of a stage: the default one by its module, further ones by their names.

    `folder` holds copies of their top packages, or is empty if the functions already include all of them.
    `requirements` are the requirement files of that folder. `requests` are those that tools of the default bundle
    answer.
    """

    module: str = DEFAULT
    folder: str = ""
    further: Mapping[str, str] = {}
    requirements: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()

    def context(self) -> dict[str, str]:
        """Return the bundles as context keys of the app."""
        named = {
            "bundle": "" if self.module == DEFAULT and not self.folder else self.module,
            "bundles": json.dumps(self.further, sort_keys=True) if self.further else "",
            "bundle_code": self.folder,
        }
        return {key: value for key, value in named.items() if value}


class BundleProblem(Value):
    """One thing that would fail. `where` is its location in the bundle, `remedy` the way to fix it."""

    code: str
    message: str
    where: str = ""
    remedy: str = ""


class BundleReport(Value):
    """The problems that the check of a bundle found; without any, the user requests that its tools answer."""

    problems: tuple[BundleProblem, ...] = ()
    requests: tuple[str, ...] = ()


def take_bundle(
    module: str,
    home: Path,
    progress: Progress,
    *,
    project: Path,
    further: Mapping[str, str] = MappingProxyType({}),
) -> BundleCode:
    """Copy the parts of `project` that bundles need, with their indexes, and check each as the functions will load it.

    Raises InputError that names the problem and its location: `bundle_not_found`, `bundle_invalid`, `bundle_failed` if
    code of a bundle raises, and the errors of building an index and an agent.
    """
    copies = home / "bundle"
    found = {one: _find(one, project) for one in (module, *further.values())}
    for one, source in found.items():
        build_bundle(one, project if source else REPOSITORY, progress)
        if source is None and find_requirements(REPOSITORY, [one]):
            found[one] = REPOSITORY / _SHARED  # the image of programs is extended from a copy
    sources = list(dict.fromkeys(filter(None, found.values())))
    if not sources:
        shutil.rmtree(copies, ignore_errors=True)
    folder = _copy(sources, copies) if sources else None
    names = {one: name for name, one in further.items()}
    reports = {
        one: _check(one, folder or REPOSITORY, home, project, name="" if one == module else names[one])
        for one, source in found.items()
        if one != DEFAULT or source
    }
    files = find_requirements(folder, found) if folder else ()
    return BundleCode(
        module=module,
        folder=str(folder or ""),
        further=dict(further),
        requirements=tuple(file.relative_to(folder or REPOSITORY).as_posix() for file in files),
        requests=reports[module].requests if module in reports else (),
    )


def checkout_bundles(project: Path, progress: Progress) -> dict[str, str]:
    """Return the bundles of a checkout that need no option, by name, and build their indexes; its tests check them.

    A bundle whose index cannot be built is left out, with a message.
    """
    there = {}
    for name, module in CHECKOUT_BUNDLES.items() if (REPOSITORY / "docs").is_dir() else ():
        if _find(module, project):
            continue
        try:
            build_bundle(module, REPOSITORY, lambda _: None)
        except SteplineError as error:
            progress(f"warn: {error.reason}: this stage has no bundle {name}: {error}")
        else:
            there[name] = module
    return there


def _find(module: str, project: Path) -> Path | None:
    """Return the bundle's top package or module in the project's folder; None if it does not exist."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise InputError(
            f"{module[:80]!r} is not the name of a module: that of the folder bundles/shop is bundles.shop",
            code="bundle_not_found",
        )
    if parts[0] in _RESERVED:
        raise InputError(f"{parts[0]} is a package of the runtime", code="bundle_invalid")
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


def _copy(sources: Sequence[Path], copies: Path) -> Path:
    """Copy packages and modules into a folder named by their content, and delete other copies.

    Return the folder.
    """
    shutil.rmtree(copies / "new", ignore_errors=True)
    fresh = copies / "new"
    fresh.mkdir(parents=True)
    ignore = shutil.ignore_patterns(*_LEFT_OUT)
    for source in sources:
        if source.is_file():
            shutil.copy(source, fresh)
            continue
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


def check_bundle(module: str, *, project: Path, locks: Path = HOME / "packages") -> BundleReport:
    """Check a bundle of the folder `project`, or an installed one, like `take_bundle`, and its packages.

    Nothing is kept except the versions of those packages, in `locks`.

    Raises DependencyError `local_install`: the index of packages does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="stepline-check-") as folder:
        home = Path(folder)
        try:
            source = _find(module, project)
            build_bundle(module, project if source else REPOSITORY, lambda _: None)
        except InputError as error:
            remedy = "docs/reference/errors.md says what the code means, docs/how-to/make-a-bundle.md how a bundle is named."
            return BundleReport(
                problems=(BundleProblem(code=error.reason, message=str(error), remedy=remedy),)
            )
        copy = _copy([source], home) if source else REPOSITORY
        report = _run_bundle_check(module, copy, home, project)
        if any(problem.code.startswith("requirement") for problem in report.problems):
            return report
        return replace(report, problems=(*report.problems, *_check_packages(module, copy, locks)))


def _check_packages(module: str, folder: Path, locks: Path) -> Iterator[BundleProblem]:
    """Yield the reasons why the packages of a bundle cannot be a layer of functions in AWS. Raises DependencyError."""
    try:
        lock_requirements(find_requirements(folder, [module]), locks, root=REPOSITORY)
    except InputError as error:
        remedy = "docs/how-to/write-a-bundle.md#packages says which packages functions in AWS can have."
        yield BundleProblem(code=error.reason, message=str(error), remedy=remedy)


def check_in_place(module: str, project: Path, home: Path) -> tuple[str, ...]:
    """Check a bundle of a folder that is not copied; return the requests that its tools answer. Raises InputError."""
    return _check(module, project, home, project, name="").requests


def _run_bundle_check(
    module: str, folder: Path, home: Path, project: Path, *, name: str = ""
) -> BundleReport:
    """Check the bundle of `folder` as a function would load it; `name` is that of a further bundle on the stage."""
    here = install_environment()
    given = {one: here[one] for one in OF_DEFAULT[1 if name else 0 :] if here.get(one)}
    if folder_of_descriptors := given.get(OF_DEFAULT[-1]):
        given[OF_DEFAULT[-1]] = str(Path(folder_of_descriptors).resolve())
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stepline.local.stage.bundle_check", module, *filter(None, [name])],
            cwd=folder,
            env=function_environment(home, **given),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CHECK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _process_problem(f"{module} did not finish loading within {CHECK_S} s")
    if done.returncode or not done.stdout:
        last = "".join(f": {line}" for line in done.stderr.splitlines()[-1:])
        return _process_problem(f"{module} ends the process that loads it{last}")
    report = msgspec.json.decode(done.stdout, type=BundleReport)
    looked = f"; looked in {project}, and among the packages of {sys.prefix}"
    problems = (
        replace(problem, where=looked)
        if problem.code.endswith("_not_found") and not problem.where
        else problem
        for problem in report.problems
    )
    return replace(report, problems=tuple(problems))


def _process_problem(message: str) -> BundleReport:
    remedy = "Do not wait for anything and do not end the process when the package is imported."
    return BundleReport(problems=(BundleProblem(code="bundle_failed", message=message, remedy=remedy),))


def _check(module: str, folder: Path, home: Path, project: Path, *, name: str) -> BundleReport:
    """Return the report of a bundle without a problem. Raises InputError with the first problem."""
    report = _run_bundle_check(module, folder, home, project, name=name)
    if report.problems:
        first, *others = report.problems
        more = f"; `stepline bundle check {module}` lists {len(others)} more" if others else ""
        raise InputError(f"{first.message}{first.where}{more}", code=first.code)
    return report


def load_bundle(module: str, name: str = "") -> None:
    """Load the bundle and build its agent, as a function does, with the settings in this process's variables.

    Raises InputError, and errors of the bundle's code.
    """
    from stepline.bootstrap.memory_wiring import in_memory
    from stepline.bundle.deployable import load_deployable
    from stepline.programs.bundle_files import read_bundle_files
    from stepline.settings import Settings, env

    workflow = load_deployable(module)
    if workflow.knowledge:
        workflow.knowledge.check()
    parts = workflow.parts()
    # Its on_bundle_load may need the secrets of the deployment, which this process does not have.
    here = install_environment()
    given = {one: here[one] for one in OF_DEFAULT if one in here}
    app = in_memory(Settings.from_env({**given, **env(bundle=module)}))
    replace_fields(app, bundle=name).build_agent(replace_fields(parts, on_load=None))
    read_bundle_files(module)  # refuses one that is too large


def explain(error: BaseException, folder: Path) -> dict[str, str]:
    """Return an error for the parent process: one of ours unchanged, another with its location in the bundle."""
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
