"""The last three releases and the working tree, published as versions of the deployed functions, whose aliases move."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepline.local.stage.deployed import client
from tests.contract.deploy_storm.release_tree import LIBRARY, packages_of
from tests.e2e.mode import ALIAS, find_function
from tests.e2e.release import download

STEPS = ("decide", "act", "execute", "close")
"""The functions of a turn's steps."""

NAMED = '''
"""The handler of a release, whose steps name the release."""

from lambdas._before.{name} import handler as before


def handler(event, context):
    return {{**before(event, context), "release": "{release}"}}
'''


@contextmanager
def release_mix(stage, releases) -> Iterator[ReleaseMix]:
    """Yield the stage's step functions in these releases; afterwards the stage is as it was."""
    mix = ReleaseMix(stage, releases)
    try:
        mix.publish()
        yield mix
    finally:
        mix.undo()


class ReleaseMix:
    """Versions of each function by release, between which its alias moves."""

    def __init__(self, stage, releases) -> None:
        self._functions = client("lambda", stage.deployed)
        self._stage, self._releases = stage, releases
        self._versions: dict[tuple[str, str], str] = {}
        self._before: dict[str, tuple[str, str, bytes]] = {}

    def publish(self) -> None:
        """Publish every function in every release; the aliases stay."""
        for name in STEPS:
            found = find_function(self._stage, name)
            assert found is not None, name
            function = found["FunctionName"]
            live = self._functions.get_alias(FunctionName=function, Name=ALIAS)["FunctionVersion"]
            code = self._functions.get_function(FunctionName=function, Qualifier=live)["Code"]["Location"]
            package = download(self._stage.deployed, code)
            self._before[name] = (function, live, package)
            for release in self._releases:
                made = self._functions.update_function_code(
                    FunctionName=function, ZipFile=pack(package, name, release), Publish=True
                )
                self._versions[name, release] = made["Version"]

    def move(self, name: str, release: str) -> None:
        """Let a function run in a release from its next invocation on."""
        self._functions.update_alias(
            FunctionName=self._before[name][0], Name=ALIAS, FunctionVersion=self._versions[name, release]
        )

    def undo(self) -> None:
        for function, live, package in self._before.values():
            self._functions.update_alias(FunctionName=function, Name=ALIAS, FunctionVersion=live)
            self._functions.update_function_code(FunctionName=function, ZipFile=package)
        for (name, _), version in self._versions.items():
            self._functions.delete_function(FunctionName=self._before[name][0], Qualifier=version)


def pack(package: bytes, name: str, release: str) -> bytes:
    """Return a function's package with the handlers, the bundles and the library of a release."""
    folder, packed = packages_of(release), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as before, zipfile.ZipFile(packed, "w") as after:
        bootstrap = before.getinfo("bootstrap")
        command = before.read(bootstrap).decode().replace(" exec ", f' PYTHONPATH="{folder / LIBRARY}" exec ')
        after.writestr(bootstrap, command)
        for path in sorted([*folder.glob("lambdas/**/*.py"), *folder.glob("bundles/**/*")]):
            if path.is_file() and "__pycache__" not in path.parts:
                after.write(path, _placed(path.relative_to(folder), name))
        after.writestr(f"lambdas/{name}.py", NAMED.format(name=name, release=release))
    return packed.getvalue()


def _placed(path: Path, name: str) -> str:
    return f"lambdas/_before/{name}.py" if path == Path("lambdas", f"{name}.py") else str(path)
