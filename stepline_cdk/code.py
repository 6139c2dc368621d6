"""The code of the functions: handlers and layers in AWS, the project's own environment on the emulator.

Docker is never needed. The dependency layer is built by pip for the functions' platform, and an interpreter of the
runtime's version compiles it and our own code. The emulator needs no layer, since a two-line bootstrap runs AWS's own
runtime client in the environment this app is synthesized with.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stepline.errors import DependencyError
from stepline_cdk.bytecode import PYTHON_VERSION, compile_folder, copy_sources, digest_of

RUNTIME = lambda_.Runtime.PYTHON_3_14
"""The newest Python with SnapStart on Lambda."""
ARCHITECTURE = "aarch64"
LAYER_AT = "/opt/python"
HANDLERS_AT = "/var/task"
"""Where Lambda mounts the packages of a layer, and a function's own code."""
_DEPS_STAMP = "python/.requirements.sha256"
AUTHORIZER = "authorizer"
"""The layer of the one function that has it instead of the common dependencies: two fifths of their bytes."""
ACTING = ("memory", "mcp", AUTHORIZER)
"""The layers that few functions have: to search the memory index, to call MCP servers, to authorize. Folders in `layers`."""
_BUNDLED = ("lambdas", "bundles")
_UNBUNDLED = ["__pycache__", "*.pyc"]
_IGNORED = shutil.ignore_patterns(*_UNBUNDLED)
_LOCAL_ONLY = ("local", "testing.py")
"""Parts of the library that no function imports."""


class Package(NamedTuple):
    """The code of one stack's functions; stacks share neither assets nor layers.

    `acting` are the layers that few functions have, by name.
    `traced` are those of functions that send traces, instead of `layers`, if the stage has traces. `bundle` are those of functions that load the bundle. Both exist if the stack has such functions.
    """

    runtime: lambda_.Runtime
    handlers: lambda_.AssetCode
    layers: list[lambda_.LayerVersion]
    traced: list[lambda_.LayerVersion]
    acting: Mapping[str, lambda_.LayerVersion]
    bundle: list[lambda_.LayerVersion]


@dataclass(frozen=True, kw_only=True)
class Code:
    """The runtime of every function, its code folder with the relevant packages, and the layers' folders.

    Each layer's folder has a `python/`; `acting` are those of functions that run tools, `bundle` that of the packages which
    the bundle requires by its files `requirements`, paths in the checkout; others of them are in those `shared` layers of
    `acting`. `compiled` folders contain the bytecode of that runtime.
    """

    runtime: lambda_.Runtime
    folder: Path
    layers: tuple[Path, ...] = ()
    acting: tuple[Path, ...] = ()
    traced: Path | None = None
    bundle: Path | None = None
    shared: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    packages: tuple[str, ...] = _BUNDLED
    compiled: bool = False

    @classmethod
    def for_aws(
        cls,
        root: Path,
        *,
        version: str = PYTHON_VERSION,
        compiler: Path | None = None,
        deps: Path | None = None,
        acting: tuple[Path, ...] = (),
        tracing: Path | None = None,
        bundle: Path | None = None,
        shared: tuple[str, ...] = (),
        requirements: tuple[str, ...] = (),
    ) -> Code:
        """Return the handlers, one layer with the library, and those with dependencies, built if stale.

        `compiler` is an interpreter of this `version`; without one there is no bytecode. `tracing` is the folder with
        the lock of what sends traces, for a stage that has some, `bundle` one with the lock of the files `requirements` of a bundle.
        """
        runtime: lambda_.Runtime = getattr(lambda_.Runtime, f"PYTHON_{version.replace('.', '_')}")
        deps = deps or build_deps(root / "layers/deps", version)
        acting = acting or tuple(build_deps(root / "layers" / name, version) for name in ACTING)
        bundle = build_deps(bundle, version) if bundle else None
        tracing = build_deps(tracing, version) if tracing else None
        handlers, library = root, root / "layers/runtime"
        if compiler is not None:
            built = root / ".stepline/functions"
            handlers, library = built / "handlers", built / "library"
            packages = library / "python"
            content = copy_sources(tuple(root / name for name in _BUNDLED), handlers)
            compile_folder(compiler, version, handlers, mounted_at=HANDLERS_AT, content=content)
            content = copy_sources((root / "layers/runtime/python/stepline",), packages, without=_LOCAL_ONLY)
            compile_folder(compiler, version, packages, mounted_at=LAYER_AT, content=content)
            for folder in filter(None, (deps, *acting, tracing, bundle)):
                content = (folder / _DEPS_STAMP).read_text()
                compile_folder(compiler, version, folder / "python", mounted_at=LAYER_AT, content=content)
        return cls(
            runtime=runtime,
            folder=handlers,
            layers=(library, deps),
            acting=acting,
            traced=_join(library, tracing, root / ".stepline/functions/traced") if tracing else None,
            bundle=bundle,
            shared=shared,
            requirements=requirements,
            compiled=compiler is not None,
        )

    def bundle_bytes(self) -> tuple[int, int]:
        """Return the unzipped bytes of the bundle's packages, and of everything else in the largest function."""
        layers = [
            _bytes_of(folder / "python")
            for folder in (*self.layers, *self.acting, *filter(None, [self.traced]))
            if folder.name != AUTHORIZER
        ]
        handlers = [_bytes_of(self.folder / name) for name in self.packages]
        return _bytes_of(self.bundle / "python") if self.bundle else 0, sum([*layers, *handlers])

    @classmethod
    def for_emulator(cls, root: Path, folder: Path, *, bundle: Path | None = None) -> Code:
        """Collect into `folder` the handlers, a bootstrap with this interpreter, and a digest of the library.

        `bundle` is a folder whose packages and modules are put beside the handlers, replacing existing ones.
        The library is imported from the checkout; the digest changes the package with it, so that a
        deployment replaces the workers that still hold the old one.
        """
        shutil.rmtree(folder, ignore_errors=True)
        for name in _BUNDLED:
            shutil.copytree(root / name, folder / name, ignore=_IGNORED)
        own = sorted(bundle.iterdir()) if bundle else []
        for path in own:
            if path.is_dir():
                shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
            else:
                shutil.copy(path, folder)
        bootstrap = folder / "bootstrap"
        bootstrap.write_text(
            render_bootstrap(
                str(Path(sys.prefix) / "bin/python"),
                digest_of(root / "layers/runtime/python", without=_LOCAL_ONLY),
            )
        )
        bootstrap.chmod(0o755)
        packages = dict.fromkeys([*_BUNDLED, *(path.name for path in own)])
        return cls(runtime=lambda_.Runtime.PROVIDED_AL2023, folder=folder, packages=tuple(packages))

    def holding(self, files: Mapping[str, bytes], folder: Path) -> Code:
        """Return this code with files beside the handlers, in a copy at `folder`; without any, this code itself."""
        if not files:
            return self
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("bootstrap", *self.packages):
            source = self.folder / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=None if self.compiled else _IGNORED)
            elif source.exists():
                shutil.copy(source, folder / name)
        for name, body in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        added = dict.fromkeys([*self.packages, *(Path(name).parts[0] for name in files)])
        return replace(self, folder=folder, packages=tuple(added))

    def add_to(
        self,
        scope: Construct,
        *,
        acting: tuple[str, ...] = (),
        loads_bundle: bool = False,
        traced: bool = False,
    ) -> Package:
        """Add code and layers to a stack: those named by `acting`, those of the bundle if its functions load it, and of traces.

        The local stage's code is not included.
        """
        unbundled = [] if self.compiled else _UNBUNDLED
        handlers = lambda_.Code.from_asset(
            str(self.folder),
            exclude=["/*", "!/bootstrap", *(f"!/{name}" for name in self.packages), *unbundled],
            ignore_mode=cdk.IgnoreMode.GIT,
        )
        few = {folder.name: self._layer(scope, folder) for folder in self.acting if folder.name in acting}
        bundle = [few[name] for name in self.shared if loads_bundle]
        if loads_bundle and self.bundle:
            bundle.append(self._layer(scope, self.bundle))
        layers = [self._layer(scope, folder) for folder in self.layers]
        own = self._layer(scope, self.traced) if traced and self.traced else None
        return Package(
            runtime=self.runtime,
            handlers=handlers,
            layers=layers,
            traced=[own, *layers[1:]] if own else layers,
            acting=few,
            bundle=bundle,
        )

    def _layer(self, scope: Construct, folder: Path) -> lambda_.LayerVersion:
        unbundled = [] if self.compiled else _UNBUNDLED
        return lambda_.LayerVersion(
            scope,
            f"Layer{folder.name.title()}",
            code=lambda_.Code.from_asset(
                str(folder),
                exclude=[
                    "/*",
                    "!/python",
                    *(f"python/stepline/{name}" for name in _LOCAL_ONLY),
                    *unbundled,
                ],
                ignore_mode=cdk.IgnoreMode.GIT,
            ),
            compatible_runtimes=[self.runtime],
            compatible_architectures=[lambda_.Architecture.ARM_64],
        )


def render_bootstrap(python: str, digest: str) -> str:
    """Return the entry point of a function whose runtime is the project's environment."""
    # A program may fill every thread of its supervisor with text; with two arenas the memory is returned,
    # with one per thread not.
    variables = "PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2"
    return f'#!/bin/sh\n# library {digest}\n{variables} exec "{python}" -m awslambdaric "$_HANDLER"\n'


def _join(library: Path, tracing: Path, folder: Path) -> Path:
    """Copy the library and the tracing packages into one layer's folder: Act already has the most layers that Lambda allows."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        library / "python",
        folder / "python",
        ignore=lambda at, _: _LOCAL_ONLY if Path(at).name == "stepline" else (),
    )
    shutil.copytree(
        tracing / "python", folder / "python", dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*")
    )
    return folder


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def read_packages(requirements: Path) -> tuple[str, ...]:
    """Return the names of the packages in a file of pinned requirements, in order."""
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    return tuple(line.partition("==")[0] for line in lines if line)


def build_deps(folder: Path, version: str, *, architecture: str = ARCHITECTURE) -> Path:
    """Install the locked requirements for a Python on Lambda into `folder/python`, unless present.

    Raises DependencyError `local_install`; pip has printed the reason.
    """
    with (folder / "requirements.txt").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two concurrent syntheses, the second one finds it built
        return _build_deps(folder, version, architecture)


def _build_deps(folder: Path, version: str, architecture: str) -> Path:
    requirements = folder / "requirements.txt"
    stamp = folder / _DEPS_STAMP
    wanted = hashlib.sha256(requirements.read_bytes() + f"{version} {architecture}".encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(stamp.parent, ignore_errors=True)
    # pip matches each tag by its name alone: manylinux_2_28 does not include earlier ones.
    tags = ("2014", *(f"_2_{minor}" for minor in range(17, 29)))
    platforms = tuple(f"manylinux{tag}_{architecture}" for tag in tags)
    done = subprocess.run(  # noqa: S603 - fixed command, our own requirements file
        [
            *(sys.executable, "-m", "pip", "install", "--quiet"),
            *("--no-compile", "--no-deps", "--require-hashes"),
            *("--only-binary=:all:", "--implementation", "cp", "--python-version", version),
            "--ignore-requires-python",  # pip compares with the Python that it runs in
            *(flag for name in platforms for flag in ("--platform", name)),
            *("--target", str(stamp.parent), "--requirement", str(requirements)),
        ],
        check=False,
    )
    if done.returncode:
        raise DependencyError(f"the packages of {requirements} cannot be installed", code="local_install")
    for path in [*stamp.parent.rglob("tests"), *stamp.parent.rglob("__pycache__"), stamp.parent / "bin"]:
        shutil.rmtree(path, ignore_errors=True)
    for record in stamp.parent.glob("*.dist-info/RECORD"):
        # Commands were removed above; their hashes depend on the path of the Python here.
        rows = record.read_text(encoding="utf-8").splitlines(keepends=True)
        record.write_text("".join(row for row in rows if not row.startswith("../../bin/")), encoding="utf-8")
    stamp.write_text(wanted)
    return folder
