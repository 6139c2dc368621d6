"""`stepline bundle`: check a bundle before it is deployed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from stepline.errors import InputError
from stepline.local.command.argument import json_option


@click.group()
def bundle() -> None:
    """Check a bundle before it is deployed."""


@bundle.command()
@click.argument("bundle", default=".", metavar="[MODULE|DIR]")
@json_option
def check(bundle: str, *, as_json: bool) -> None:
    """Check a bundle: list each problem with its remedy.

    MODULE is a module of this folder or an installed one, DIR the folder of a bundle or of its package;
    default: this folder. Nothing is deployed. The exit code is 1 if there is a problem.
    """
    from msgspec.structs import asdict

    from stepline.local.safe_text import clean
    from stepline.local.stage.bundle_code import check_bundle
    from stepline.local.terminal.json_lines import render_json_line

    module, project = find_bundle(bundle, Path.cwd())
    report = check_bundle(module, project=project)
    if as_json:
        problems = [asdict(problem) for problem in report.problems]
        click.echo(render_json_line({"bundle": module, "problems": problems}))
    else:
        for problem in report.problems:
            click.echo(clean(f"{problem.code}: {problem.message}{problem.where}"))
            click.echo(clean(f"  → {problem.remedy}"))
        if not report.problems:
            click.echo(f"{module}: nothing would fail")
    sys.exit(1 if report.problems else 0)


def find_bundle(named: str, here: Path) -> tuple[str, Path]:
    """Return the module of a bundle and the folder that contains its top package.

    Raises InputError: `bundle_not_found`, a folder without a bundle; `bundle_ambiguous`, a folder with several.
    """
    folder = here / named
    if not folder.is_dir():
        return named, here
    folder = folder.resolve()
    if (folder / "__init__.py").is_file():
        return _above(folder)
    found = [_above(package) for package in (*_packages(folder), *_packages(folder / "bundles"))]
    if not found:
        raise InputError(
            f"{folder} has no package with a WORKFLOW in its __init__.py", code="bundle_not_found"
        )
    if len(found) > 1:
        names = ", ".join(module for module, _ in found)
        raise InputError(f"{folder} has several bundles; name one of {names}", code="bundle_ambiguous")
    return found[0]


def _above(package: Path) -> tuple[str, Path]:
    """Return a package's module, and the folder of its top package; `bundles` is a package even without a file."""
    names = [package.name]
    above = package.parent
    while (above / "__init__.py").is_file() or above.name == "bundles":
        names.insert(0, above.name)
        above = above.parent
    return ".".join(names), above


def _packages(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*/__init__.py"))
    return [file.parent for file in files if "WORKFLOW" in file.read_text(encoding="utf-8", errors="replace")]
