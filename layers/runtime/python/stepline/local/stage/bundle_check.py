"""The check of a bundle: everything that would fail once it is deployed, each with its remedy.

`python -m stepline.local.stage.bundle_check MODULE [NAME]` runs the check; NAME is that of a further bundle on the stage. It runs in its own process, which sees the same
modules as functions, in the folder that holds the bundle, and prints a `BundleReport` as JSON.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import msgspec

from stepline.errors import InputError, SteplineError
from stepline.local.install.extra import is_installed
from stepline.local.install.package import run_uv
from stepline.local.install.requirement_lock import (
    REQUIREMENT_PARSE_ERROR,
    find_requirements,
    read_requirements,
)
from stepline.local.stage.bundle_code import BundleProblem, BundleReport, explain, load_bundle

if TYPE_CHECKING:
    from stepline.bundle.workflow import BaseWorkflow
    from stepline.tools.spec import ToolSpec

FORBIDDEN: Final = (
    *("stepline.adapters", "stepline.bootstrap", "stepline.local", "stepline.settings", "stepline.testing"),
    *(
        "lambdas",
        "stepline_cdk",
        "exec_task",
        "anthropic",
        "aws_cdk",
        "aws_lambda_powertools",
        "boto3",
        "botocore",
    ),
    *("redis", "urllib3"),
)
"""Packages that a bundle must not import: its functions may not reach them, or do not have them."""

TOOL_ID: Final = re.compile(r"[A-Za-z_]\w{0,63}(\.[A-Za-z_]\w{0,63}){1,3}", re.ASCII)
_MET: Final = "Would make no changes"
"""uv's message for a dry run if the environment has everything."""
_REMEDIES: Final = {
    "bundle_not_found": "Run it in the folder that contains the package; the name of bundles/shop is bundles.shop.",
    "bundle_invalid": "See docs/how-to/write-a-bundle.md#the-workflow.",
    "bundle_failed": "Fix the named line: functions load the package with no variable of your shell.",
    "tools_module_not_found": "Name the module in `tools_module` as Python imports it, with the package before it.",
    "tools_module_invalid": "Put `TOOLS = (Tool(spec=…, run=…),)` into the module.",
    "tool_id_taken": "Give one of the tools another `tool_id`.",
    "skills_module_not_found": "Name the module in `skills_module` as Python imports it, with the package before it.",
    "skills_module_invalid": "Put `SKILLS = (Skill(…),)` into the module.",
    "knowledge_not_built": "Run `stepline knowledge build` with the bundle's folder.",
    "result_type_invalid": "`result` is a JSON schema or a type: docs/how-to/write-a-bundle.md#a-result-type.",
    "resolver_invalid": "A namespace has 3 to 32 small letters, digits, _ and -: docs/how-to/write-a-bundle.md#paths-of-its-own.",
    "requirements_invalid": "Name packages of an index, one per line: docs/how-to/write-a-bundle.md#packages.",
    "skill_invalid": "An id is `<namespace>.<name>` or `<name>`: small letters, digits, _ and -.",
}


class Import(NamedTuple):
    """An import that runs in a function: the module's name, the file and its line."""

    name: str
    file: Path
    line: int


def _examine(module: str, folder: Path, name: str = "") -> BundleReport:
    """Check the bundle `module` of `folder`, which is on the path."""
    try:
        from stepline.bundle.workflow import load_workflow

        workflow = load_workflow(module)
    except BaseException as error:  # noqa: BLE001 - every exception of a bundle is reported
        return BundleReport(problems=(_problem_of(error, folder),))
    problems = [
        *_parts(workflow, folder),
        *_deployable(workflow, module),
        *_imports(folder, (module, workflow.__module__, workflow.tools_module, workflow.skills_module)),
        *_requirements(module, folder),
    ]
    if problems:
        return BundleReport(problems=tuple(problems))
    try:
        load_bundle(module, name)
    except BaseException as error:  # noqa: BLE001 - as above
        return BundleReport(problems=(_problem_of(error, folder),))
    return BundleReport(
        requests=tuple(said for tool in workflow.parts().tools for said in tool.spec.requests)
    )


# --- the parts of the agent


def _parts(workflow: type[BaseWorkflow], folder: Path) -> Iterator[BundleProblem]:
    from stepline.bundle.namespaces.namespace_resolver import check_resolvers
    from stepline.tools.catalogue import agent_registry

    parts = workflow.parts()
    specs: list[ToolSpec] = []
    try:
        specs = [tool.spec for tool in parts.tools]
    except BaseException as error:  # noqa: BLE001 - as in `_examine`
        yield _problem_of(error, folder)
    yield from check_contracts(specs)
    try:
        parts.skills({spec.tool_id for spec in (*specs, *agent_registry(()).specs)})
    except BaseException as error:  # noqa: BLE001 - as in `_examine`
        yield _problem_of(error, folder)
    try:
        _ = parts.result_type
    except BaseException as error:  # noqa: BLE001 - as in `_examine`
        yield _problem_of(error, folder)
    try:
        check_resolvers(parts.resolvers)
    except InputError as error:
        yield _problem_of(error, folder)


def check_contracts(specs: Sequence[ToolSpec]) -> Iterator[BundleProblem]:
    """Yield the faults in the contracts of a bundle's tools."""
    from stepline.tools.catalogue import agent_registry

    count = Counter(spec.tool_id for spec in (*specs, *agent_registry((), executes=True).specs))
    for tool_id in {spec.tool_id: None for spec in specs}:
        if count[tool_id] > 1:
            message = f"two tools are called {tool_id}"
            yield BundleProblem(code="tool_id_taken", message=message, remedy=_REMEDIES["tool_id_taken"])
    for spec in specs:
        yield from _check_tool(spec)


def _check_tool(spec: ToolSpec) -> Iterator[BundleProblem]:
    from stepline.tools.spec import ToolEffect

    def wrong(code: str, said: str, remedy: str) -> BundleProblem:
        return BundleProblem(code=code, message=f"{spec.tool_id!s:.80}: {said}", remedy=remedy)

    if not TOOL_ID.fullmatch(spec.tool_id):
        yield wrong("tool_invalid", "its id is not valid", "Write `<alias>.<name>`: letters, digits and _.")
    if spec.effect not in get_args(ToolEffect):
        said = f"its effect {spec.effect!r:.40} is not valid"
        yield wrong(
            "tool_invalid",
            said,
            f"It is one of {', '.join(get_args(ToolEffect))}: docs/how-to/add-a-tool.md.",
        )
    flaws = list(_schema_flaws(spec))
    for flaw in flaws:
        yield wrong(
            "tool_schema_invalid",
            flaw,
            "The schema is JSON Schema of an object, closed: docs/how-to/add-a-tool.md.",
        )
    if flaws:
        return
    if missing := [key for key in spec.key_order if key not in spec.documented]:
        yield wrong(
            "tool_schema_invalid",
            f"`key_order` names {missing[0]!r}, which is not a parameter",
            "Leave it out.",
        )
    for example in spec.examples:
        for flaw in spec.validate(example)[:1]:
            yield wrong("tool_example_invalid", f"an example breaks the schema: {flaw}", "Fix the example.")
    if len(spec.requests) > len(spec.examples) or any(len(said.splitlines()) != 1 for said in spec.requests):
        said = "its `requests` are not sentences on one line, each with an example that answers it"
        yield wrong(
            "tool_example_invalid", said, "Write what a user would say, and the parameters that answer it."
        )


def _schema_flaws(spec: ToolSpec) -> Iterator[str]:
    import fastjsonschema

    from stepline.tools.parameter import find_properties
    from stepline.tools.spec import render_tool_card

    try:
        properties, required = find_properties(spec.schema)
        if spec.schema.get("type", "object") != "object":
            yield "its schema is not that of an object (`type: object`)"
            return
        if spec.schema.get("additionalProperties") is True:
            yield "its schema accepts unknown parameters (`additionalProperties: true`)"
        unknown = [name for name in required if name not in properties]
        yield from (f"`required` names `{name}`, which is not a parameter" for name in unknown)
        if unknown:
            return
        spec.validate({})
        render_tool_card(spec)
    except fastjsonschema.JsonSchemaDefinitionException as error:
        yield f"its schema is not valid: {error}"
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        yield f"its schema cannot be read: {type(error).__name__}: {error!s:.200}"


def _deployable(workflow: type[BaseWorkflow], module: str) -> Iterator[BundleProblem]:
    """Yield the parts of a workflow that functions, which create none, would leave out."""
    from stepline.bundle.deployable import NOT_DEPLOYABLE, check_deployable

    for sentence in check_deployable(workflow):
        message = f"{module} cannot be deployed: {sentence}"
        remedy = "docs/how-to/write-a-bundle.md#what-runs-where says which parts run in functions."
        yield BundleProblem(code=NOT_DEPLOYABLE, message=message, remedy=remedy)


# --- the imports of the bundle


def _imports(folder: Path, modules: Sequence[str]) -> Iterator[BundleProblem]:
    try:
        imports = list(find_imports(folder, modules))
    except SyntaxError as error:  # a module that is imported at its first use
        yield _problem_of(error, folder)
        return
    for one in imports:
        where = f" ({one.file.relative_to(folder)}, line {one.line})"
        if any(f"{one.name}.".startswith(f"{name}.") for name in FORBIDDEN):
            yield BundleProblem(
                code="import_forbidden",
                message=f"a bundle must not import {one.name}",
                where=where,
                remedy="Take it from `stepline` (docs/reference/public-face.md), or call your own service.",
            )
        elif not _is_installed(one.name, folder):
            yield BundleProblem(
                code="import_missing",
                message=f"{one.name} is neither installed nor a module of the bundle",
                where=where,
                remedy="Install it where `stepline` is installed, and name it in the bundle's requirements.txt.",
            )


def _is_installed(name: str, folder: Path) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or _file_of(top, folder):
        return True
    return importlib.util.find_spec(top) is not None


def find_imports(folder: Path, modules: Sequence[str]) -> Iterator[Import]:
    """Yield the imports of these modules and of all modules of `folder` that they lead to, each once per module.

    Imports for type checkers only are left out, and those with a fallback. Raises SyntaxError.
    """
    waiting = [name for module in modules for name in accumulate(module.split("."), "{}.{}".format)]
    seen: set[Path] = set()
    while waiting:
        name = waiting.pop(0)
        file = _file_of(name, folder)
        if file is None or file in seen:
            continue
        seen.add(file)
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for one, line in dict(_imported(ast.parse(file.read_bytes(), str(file)), package)).items():
            waiting += accumulate(one.split("."), "{}.{}".format)
            yield Import(one, file, line)


def _file_of(module: str, folder: Path) -> Path | None:
    """Return the file of a module of `folder`; None if it has none there."""
    if not module:
        return None
    place = folder.joinpath(*module.split("."))
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, int]]:
    """Yield the imports of a module of `package`, with their lines."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from ((alias.name, child.lineno) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                origin = ".".join([*above, *filter(None, [module])])
                yield from ((f"{origin}.{alias.name}", child.lineno) for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from (found for other in child.orelse for found in _imported(other, package))
            case ast.Try() if any(_catches_absence(handler) for handler in child.handlers):
                continue
            case _:
                yield from _imported(child, package)


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception"})


def _requirements(module: str, folder: Path) -> Iterator[BundleProblem]:
    """Yield the packages that the bundle requires and that this environment lacks, or has in another version."""
    for file in find_requirements(folder, [module]):
        name = file.relative_to(folder)
        remedy = f"Install it where `stepline` is installed: pip install -r {name}"
        try:
            named = list(read_requirements(file))
        except InputError as error:
            yield _problem_of(error, folder)
            continue
        missing = [one for one in named if not (one.conditional or is_installed(one.name))]
        for one in missing:
            yield BundleProblem(
                code="requirement_missing",
                message=f"{one.name} is not installed",
                where=f" ({name}, line {one.line})",
                remedy=remedy,
            )
        if named and not missing and (said := _find_unmet(file)):
            code = "requirements_invalid" if REQUIREMENT_PARSE_ERROR in said else "requirement_unmet"
            yield BundleProblem(
                code=code, message=said, where=f" ({name})", remedy=_REMEDIES.get(code, remedy)
            )


def _find_unmet(file: Path) -> str:
    """Return why this environment lacks the packages of a file in their versions; "" if it has them all."""
    flags = ("--dry-run", "--offline", "--python", sys.executable, "--requirement", str(file))
    done = run_uv("install", *flags, scratch=Path(tempfile.gettempdir()))
    if not done.returncode and _MET in done.stderr:
        return ""
    return f"the environment does not have what is required: {' '.join(done.stderr.split())[:600]}"


def _problem_of(error: BaseException, folder: Path) -> BundleProblem:
    return BundleProblem(**{**explain(error, folder), "remedy": remedy_of(error)})


def remedy_of(error: BaseException) -> str:
    """Return the remedy for an error of a bundle."""
    code = error.reason if isinstance(error, SteplineError) else "bundle_failed"
    return _REMEDIES.get(code, "docs/reference/errors.md says what the code means.")


def main() -> None:
    """Check the bundle that the command line names."""
    with contextlib.redirect_stdout(sys.stderr):  # a bundle may print
        report = _examine(sys.argv[1], Path.cwd(), *sys.argv[2:3])
    sys.stdout.buffer.write(msgspec.json.encode(report))


if __name__ == "__main__":
    main()
