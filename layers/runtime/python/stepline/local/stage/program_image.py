"""The image of modes `docker` and `fargate`, built when its inputs have changed, by any available daemon.

The build's context is streamed to the daemon, so it may be on another machine. An index with a proxy or custom
certificates works as it does for pip here: its variables and pip's own configuration are passed on.
"""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from stepline.errors import DependencyError
from stepline.local.install.package import pip_configuration
from stepline.local.stage.deployed import REPOSITORY, install_environment
from stepline.local.stage.emulator import Progress

NAME: Final = "stepline-exec"
DOCKERFILE: Final = "exec_task/Dockerfile"
SOURCES: Final = ("exec_task", "layers/deps/requirements.txt", "layers/runtime/python/stepline", "bundles")
CERTIFICATES: Final = "exec_task/certificates.pem"
BASE_VARIABLE: Final = "STEPLINE_EXEC_BASE"
ANSWER_S: Final = 20

_LEFT_OUT: Final = frozenset({"__pycache__", "local", "certificates.pem"})
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_CERTIFICATE_VARIABLES: Final = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_INDEXES: Final = ("index-url", "extra-index-url")


def image_name(root: Path = REPOSITORY) -> str:
    """Return the name of this checkout's image; its tag is a digest of the inputs."""
    digest = hashlib.sha256(install_environment().get(BASE_VARIABLE, "").encode())
    for name, body in _sources(root):
        digest.update(f"{name}\0{len(body)}\0".encode())
        digest.update(body)
    return f"{NAME}:{digest.hexdigest()[:16]}"


def find_image(image: str) -> str:
    """Return why the image cannot be used, or "" if it exists. Raises DependencyError: no daemon answers."""
    done = _docker("image", "inspect", "--format", "{{.Id}}", image)
    if not done.returncode:
        return ""
    if "no such image" in done.stderr.lower():
        return f"{image} is not built"
    raise DependencyError(
        _last(done.stderr) or "the docker command failed without output", code="docker_unavailable"
    )


def find_daemon() -> str:
    """Return the address of the daemon that the docker command uses; "" without the command."""
    try:
        return _docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").stdout.strip()
    except DependencyError:
        return ""


def build_image(image: str, home: Path, progress: Progress) -> None:
    """Build the image; other images stay, since other stages may use them.

    Docker's output goes to `image.log` in `home`. Raises DependencyError `local_image`.
    """
    progress("building the image of the executor (the first time takes about a minute)")
    log = home / "image.log"
    with log.open("wb") as said:
        done = subprocess.run(
            ["docker", "build", "--file", DOCKERFILE, "--tag", image, *_arguments(), "-"],
            input=_context(REPOSITORY),
            stdout=said,
            stderr=subprocess.STDOUT,
            env=install_environment(),
            check=False,
        )
    if done.returncode:
        output = log.read_text()
        if _UNPULLED.search(output):
            base = _find_base(REPOSITORY)
            raise DependencyError(
                f"Docker does not have the base image {base} and cannot pull it", code="local_image"
            )
        raise DependencyError(f"docker build failed: {_last(output)}", code="local_image")


def _find_base(root: Path) -> str:
    """Return the base of our image: the one that the environment names, else the Dockerfile's."""
    named = re.search(r"^ARG BASE=(\S+)", (root / DOCKERFILE).read_text(), re.MULTILINE)
    return install_environment().get(BASE_VARIABLE) or (named[1] if named else "")


_UNPULLED: Final = re.compile(
    r"^(?:ERROR: |Error response from daemon: )?(?:failed to solve: .*failed to resolve source metadata"
    r"|pull access denied|manifest (?:unknown|for )|Get \"?https?://[^ ]+/v2/)",
    re.MULTILINE,
)
"""The messages of both Docker builders for an image that a registry does not provide."""

_EXTENDED: Final = """\
FROM {image}{packages}
COPY bundle /opt/stepline/
"""
_PACKAGES: Final = """ AS packages
COPY bundle /opt/stepline/
COPY Dockerfile {certificates} /build/
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ONLY_BINARY=:all: PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
RUN python3 -m venv tool \
 && if [ -s certificates.pem ]; then export PIP_CERT=/build/certificates.pem; fi \
 && tool/bin/pip --python /opt/supervisor/bin/python freeze > installed.txt \
 && tool/bin/pip --python /opt/supervisor/bin/python install --quiet --no-compile --constraint installed.txt {files}

FROM {image}
COPY --from=packages /opt/supervisor /opt/supervisor"""
"""The supervisor's environment with the packages of the bundle, made separately, as in exec_task/Dockerfile."""


def add_bundle(image: str, folder: Path, progress: Progress, *, requirements: Sequence[str] = ()) -> str:
    """Return the image with the packages in `folder` added, named by its content.

    `requirements` are files of `folder`; their packages are installed for the supervisor.

    Raises DependencyError `local_image`.
    """
    name = f"{image}-{folder.name}"
    if not find_image(name):
        return name
    progress("adding the bundle to the image of the executor")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        certificates = _certificates() if requirements else b""
        if certificates:
            _add(archive, "certificates.pem", certificates)
        _add(
            archive,
            "Dockerfile",
            _render_extension(image, requirements, certificates=bool(certificates)).encode(),
        )
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            _add(archive, f"bundle/{file.relative_to(folder).as_posix()}", file.read_bytes())
    done = subprocess.run(
        ["docker", "build", "--tag", name, *(_arguments() if requirements else ()), "-"],
        input=buffer.getvalue(),
        capture_output=True,
        env=install_environment(),
        check=False,
    )
    if done.returncode:
        raise DependencyError(f"docker build failed: {_last(done.stderr.decode())}", code="local_image")
    return name


def _render_extension(image: str, requirements: Sequence[str], *, certificates: bool) -> str:
    packages = ""
    if requirements:
        packages = _PACKAGES.format(
            image=image,
            files=" ".join(f"--requirement /opt/stepline/{file}" for file in requirements),
            certificates="certificates.pem" if certificates else "",
        )
    return _EXTENDED.format(image=image, packages=packages)


def remove_images() -> None:
    """Remove all images of Stepline, even used ones, if a daemon answers."""
    try:
        listed = _docker("image", "ls", "--quiet", NAME).stdout.split()
    except DependencyError:
        return
    if listed:
        _docker("image", "rm", "--force", *listed)


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a short command. Raises DependencyError `docker_unavailable` if there is none, or it hangs."""
    try:
        return subprocess.run(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=ANSWER_S,
            env=install_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DependencyError(f"no docker: {error}", code="docker_unavailable") from error


def _arguments() -> list[str]:
    """Return the build's network and arguments."""
    here = install_environment()
    values = {name: here[name] for name in _PROXIES if here.get(name)} | _pip_arguments(here)
    if base := here.get(BASE_VARIABLE):
        values["BASE"] = base
    flags = [flag for name, value in values.items() for flag in ("--build-arg", f"{name}={value}")]
    # A daemon without a bridge has the host's network, or none.
    bridged = _docker("network", "inspect", "bridge").returncode == 0
    return flags if bridged else ["--network", "host", *flags]


def _pip_arguments(here: Mapping[str, str]) -> dict[str, str]:
    """Return pip's network indexes as build arguments.

    An index in a local folder is not reachable in the build.
    """
    configured = pip_configuration()
    values = {}
    for key in (*_INDEXES, "trusted-host"):
        variable = f"PIP_{key.replace('-', '_').upper()}"
        words = (here.get(variable) or configured.get(key, "")).split()
        kept = [word for word in words if key not in _INDEXES or word.startswith(("http:", "https:"))]
        if kept:
            values[variable] = " ".join(kept)
    return values


def _context(root: Path) -> bytes:
    """Return the build's context as a tar archive: the sources, and the certificates of pip's configuration."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, body in _sources(root):
            _add(archive, name, body)
        if body := _certificates():
            _add(archive, CERTIFICATES, body)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, body: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(body), 0o644
    archive.addfile(entry, io.BytesIO(body))


def _certificates() -> bytes:
    here = install_environment()
    named = [Path(here[name]) for name in _CERTIFICATE_VARIABLES if here.get(name)]
    named += [Path(value) for key, value in pip_configuration().items() if key == "cert"]
    return next((path.read_bytes() for path in named if path.is_file()), b"")


def _sources(root: Path) -> Iterator[tuple[str, bytes]]:
    for source in SOURCES:
        path = root / source
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            name = file.relative_to(root)
            if file.is_file() and not _LEFT_OUT & set(name.parts):
                yield name.as_posix(), file.read_bytes()


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""
