"""`stepline new`: a starter bundle, as a folder of working files."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import click

from stepline.errors import DependencyError, InputError
from stepline.local.command.argument import json_option
from stepline.local.terminal.output import print_result

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_RESERVED: Final = ("bundles", "lambdas", "stepline", "bootstrap", "exec_task", "stepline_cdk")
_PLACEHOLDER: Final = "NAME"
_STACK: Final = "STACK"
_APP: Final = "app"
_PAGE: Final = "README.md.txt"
_PARTS: Final = "## The parts\n"
"""The section of the page that is also that of an app."""
_SUFFIX: Final = ".txt"
"""The templates' own suffix: without it, a linter would check them as modules of this library."""


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--cdk", "is_app", is_flag=True, help="Also write a CDK app with a stack for it.")
@json_option
def new(name: str, *, is_app: bool, as_json: bool) -> None:
    """Write a new bundle into the new folder NAME.

    NAME is also the name of its package: small letters, digits and _. The folder has a tool, a skill, a document, a
    test, and a page that explains them; `make test` and `make chat` work there at once. With --cdk it is also a CDK app, with
    the construct stepline_cdk.Agent in a stack.
    """
    written = write_bundle(name, Path.cwd(), is_app=is_app)
    made = {"bundle": name, "path": str(Path.cwd() / name), "files": written}
    text = f"{name}: {len(written)} files; next: cd {name} && make test && make chat"
    print_result(made, text, as_json=as_json)


def write_bundle(name: str, parent: Path, *, is_app: bool = False) -> list[str]:
    """Write the folder `name` into `parent`, as a CDK app or without one; return the names of its files.

    Raises InputError: `bad_bundle_name`, `folder_exists`; DependencyError `not_writable`.
    """
    folder = parent / name
    if _NAME.fullmatch(name) and folder.exists():
        raise InputError(f"{folder} already exists; choose another name", code="folder_exists")
    if is_app and name == _APP:
        raise InputError(
            f"a bundle cannot be named {name!r} beside the module of its CDK app", code="bad_bundle_name"
        )
    check_package_name(name)
    texts = render_template(name, is_app=is_app)
    try:
        folder.mkdir()
        for place, text in texts.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DependencyError(f"{folder} cannot be written: {error}", code="not_writable") from error
    return sorted(texts)


def check_package_name(name: str) -> None:
    """Refuse a text that cannot name a package, or is the name of another one. Raises InputError `bad_bundle_name`."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        why = "it is at most 32 small letters, digits and _, begins with a letter and is not a Python keyword"
    elif name in _RESERVED:
        why = "the runtime has a package of this name"
    elif name in sys.stdlib_module_names or importlib.util.find_spec(name):
        why = "a package of this name is part of Python or installed"
    else:
        return
    raise InputError(f"a bundle cannot be named {name[:80]!r}: {why}", code="bad_bundle_name")


def render_template(name: str, *, is_app: bool = False) -> dict[str, str]:
    """Return the texts of a bundle's files, and of those of its CDK app, by their path in its folder."""
    found = _walk(files("stepline.local") / "template", "")
    if is_app:
        app = _walk(files("stepline.local") / "template_app", "")
        _, _, parts = found[_PAGE].partition(_PARTS)
        found |= {**app, _PAGE: f"{app[_PAGE]}{_PARTS}{parts}"}
    return {
        place.removesuffix(_SUFFIX).replace(_PLACEHOLDER, name): _fill(text, name)
        for place, text in found.items()
    }


def _fill(text: str, name: str) -> str:
    # The name of a stack has dashes.
    return text.replace(_PLACEHOLDER, name).replace(_STACK, name.replace("_", "-"))


def _walk(folder: Traversable, above: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for child in folder.iterdir():
        place = f"{above}{child.name}"
        if child.is_dir():
            texts |= _walk(child, f"{place}/")
        else:
            texts[place] = child.read_text(encoding="utf-8")
    return texts
