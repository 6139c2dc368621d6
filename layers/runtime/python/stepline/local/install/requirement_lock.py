"""The packages that bundles require, resolved once for the functions in AWS: the lock from which their layer is built.

All bundles of a stage are resolved together, since one process imports them. Packages that the functions already have
keep their version and are left out. The lock is made once for the same requirements, so that versions which appear
later change no deployment.

Source: docs/how-to/write-a-bundle.md#packages; docs.astral.sh/uv, "uv pip compile".
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from stepline.errors import DependencyError, InputError
from stepline.local.install.package import run_uv

FILES: Final = ("requirements.lock", "requirements.txt")
"""The files that name the packages of a bundle; the first one that exists is used."""

PYTHON: Final = "3.14"
PLATFORM: Final = "aarch64-manylinux_2_28"
"""The functions' Python, unless a stage chooses another one, and their platform in uv's notation."""

MEBIBYTE: Final = 1024 * 1024
LIMIT_BYTES: Final = 250 * MEBIBYTE
"""The maximum size of a function with its layers, unzipped. Source: docs.aws.amazon.com/lambda, "Lambda quotas"."""

LAYER: Final = "bundle"
RUNTIME: Final = "layers/deps/requirements.txt"
SHARED: Final[Mapping[str, str]] = {
    "memory": "layers/memory/requirements.txt",
    "mcp": "layers/mcp/requirements.txt",
}
"""The locks of the functions' own layers: that of all functions, and, by name, those of functions that run tools."""

_REQUIREMENT: Final = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?) ?(?:\[[A-Za-z0-9._, -]*\] ?)?(?:[=<>!~(;].*)?"
)
"""A name, its extras, and its versions or a marker; one space at most between two words."""

_HASH: Final = "--hash="
_UNRESOLVED: Final = 1
"""uv's exit code if no set of versions fits; after any other failure it is 2."""

REQUIREMENT_PARSE_ERROR: Final = "parse requirement"
"""uv's message for a line with an invalid version or marker."""


class Requirement(NamedTuple):
    """A package that a file names: its normalized name, its hashes, and its line number.

    A conditional one has a marker: it is for some platforms only.
    """

    name: str
    hashes: frozenset[str]
    line: int
    conditional: bool


class Packages(NamedTuple):
    """The packages of bundles: the folder with their lock, if any, and the `shared` layers that provide some of them.

    Those are not in the lock, since Lambda counts the bytes of every layer that a function has.
    """

    lock: Path | None = None
    shared: tuple[str, ...] = ()


def find_requirements(root: Path, modules: Iterable[str]) -> tuple[Path, ...]:
    """Return the files with the requirements of bundles that are packages below `root`, in order."""
    packages = [root.joinpath(*module.split(".")) for module in modules]
    found = ([package / name for name in FILES if (package / name).is_file()][:1] for package in packages)
    return tuple(dict.fromkeys(file for files in found for file in files))


def read_requirements(file: Path) -> Iterator[Requirement]:
    """Yield the packages that a file names.

    Raises:
        InputError: `requirements_invalid`, a line names an option, a path or an address: those hold on one machine only, and
            an address may hold a password.
    """
    lines = iter(enumerate(file.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        text = _without_comment(line)
        while text.endswith("\\"):
            text = f"{text[:-1]} {_without_comment(next(lines, (0, ''))[1])}"
        if not text.strip():
            continue
        words = text.split()
        hashes = frozenset(word.removeprefix(_HASH) for word in words if word.startswith(_HASH))
        plain = " ".join(word for word in words if not word.startswith(_HASH))
        found = _REQUIREMENT.fullmatch(plain)
        if found is None or " -" in plain:
            # The line may contain a password, so the message does not quote it.
            raise InputError(
                f"{file.name}, line {number}, is no package with its versions, like pandas==3.1.1: "
                "options and addresses belong into the configuration of pip",
                code="requirements_invalid",
            )
        yield Requirement(_normalize(found[1]), hashes, number, ";" in plain)


def lock_requirements(files: Sequence[Path], home: Path, *, root: Path, version: str = PYTHON) -> Packages:
    """Return the packages of these files, with their lock in a folder below `home`, resolved if it does not exist yet.

    `root` holds the locks of the functions' own layers, `version` is the functions' Python.

    Raises:
        InputError: `requirements_invalid`; `requirements_conflict`, the runtime has a package in another version;
            `requirement_without_wheel`, a package cannot be installed without being built; `requirements_unresolved`, the
            files contradict each other, or name a missing package or hashes that no file has.
        DependencyError: `local_install`, the index does not answer.
    """
    named = [one for file in files for one in read_requirements(file)]
    if not named:
        return Packages()
    sources = [*files, root / RUNTIME, *(root / file for file in SHARED.values())]
    digest = hashlib.sha256(f"{version} {PLATFORM}".encode())
    for source in sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    resolved = home / digest.hexdigest()[:16] / "resolved.txt"
    lock = resolved.parent / LAYER / "requirements.txt"
    shared = {one.name: layer for layer, file in SHARED.items() for one in read_requirements(root / file)}
    if not resolved.exists():
        lock.parent.mkdir(parents=True, exist_ok=True)
        fresh = resolved.with_suffix(".new")
        _resolve(files, fresh, root=root, version=version)
        blocks = _pin(fresh.read_text(), named)
        lock.write_text("".join(text for name, text in blocks.items() if name not in shared))
        fresh.write_text("".join(blocks.values()))
        fresh.rename(resolved)
    used = {shared[one.name] for one in read_requirements(resolved) if one.name in shared}
    return Packages(lock=lock.parent if lock.read_text() else None, shared=tuple(sorted(used)))


def check_size(own_bytes: int, other_bytes: int, files: Sequence[Path]) -> None:
    """Refuse packages of these files that do not fit into a function with its other bytes.

    Raises InputError `requirements_too_large`.
    """
    if own_bytes and own_bytes + other_bytes > LIMIT_BYTES:
        raise InputError(
            f"the packages of {', '.join(map(str, files))} have {own_bytes // MEBIBYTE} MiB, and beside the runtime a function"
            f" in AWS has room for {(LIMIT_BYTES - other_bytes) // MEBIBYTE}",
            code="requirements_too_large",
        )


def _resolve(files: Sequence[Path], lock: Path, *, root: Path, version: str) -> None:
    own = (root / RUNTIME, *(root / file for file in SHARED.values()))
    constraints = [flag for file in own for flag in ("--constraint", str(file))]
    left_out = [flag for one in read_requirements(own[0]) for flag in ("--no-emit-package", one.name)]
    flags = (
        *("--python", sys.executable, "--python-version", version, "--python-platform", PLATFORM),
        # Like pip, which installs the lock, use what fits from any configured index, preferring the first one that has
        # it.
        *("--index-strategy", "unsafe-first-match"),
        *("--no-build", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"),
        *("--output-file", str(lock), *map(str, files)),
    )
    done = run_uv("compile", *flags, *constraints, *left_out, scratch=lock.parent)
    if not done.returncode:
        return
    said = " ".join(done.stderr.split())
    if REQUIREMENT_PARSE_ERROR in said:
        raise InputError(
            f"the requirements of the bundle cannot be read: {said[:800]}", code="requirements_invalid"
        )
    if done.returncode != _UNRESOLVED:
        raise DependencyError(
            f"the packages of the bundle are not found: {said[-800:]}", code="local_install"
        )
    if not run_uv("compile", *flags, scratch=lock.parent).returncode:
        raise InputError(
            f"the bundle needs a package in a version that the runtime does not have: {said[:800]}",
            code="requirements_conflict",
        )
    if "wheel" in said:
        raise InputError(
            f"a package of the bundle has no wheel for Python {version} on {PLATFORM}: {said[:800]}",
            code="requirement_without_wheel",
        )
    raise InputError(f"the packages of the bundle do not fit: {said[:800]}", code="requirements_unresolved")


def _pin(lock: str, named: Sequence[Requirement]) -> dict[str, str]:
    """Return the packages of a lock by name, each limited to the hashes that a file names for it, if any.

    Raises InputError `requirements_unresolved`: the index has none of the hashes.
    """
    wanted: dict[str, frozenset[str]] = {}
    for one in named:
        if one.hashes:
            wanted[one.name] = wanted.get(one.name, one.hashes) & one.hashes
    blocks = {}
    for block in filter(None, re.split(r"\n(?=[A-Za-z0-9])", lock.strip())):
        name, hashes = _normalize(block.partition("==")[0]), re.findall(r"--hash=(\S+)", block)
        kept = [one for one in hashes if one in wanted.get(name, hashes)]
        if hashes and not kept:
            raise InputError(f"no file of {name} has a hash that is named", code="requirements_unresolved")
        rows = [block.split(" \\")[0], *(f"    {_HASH}{one}" for one in kept)]
        blocks[name] = " \\\n".join(rows) + "\n"
    return blocks


def _without_comment(line: str) -> str:
    """Return a line without its comment, which begins the line or follows a space."""
    return re.split(r"(?:^|\s)#", line, maxsplit=1)[0].rstrip()


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
