"""The image of docs/how-to/serve.md: read-only and without root it is healthy, answers, and ends when it is stopped.

Of the page's Dockerfile only the base may differ, if this machine has that of the executor's image instead. The library is
the wheel of this checkout, and nothing is downloaded while the image is built.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepline.local.page.page_build import build_server
from stepline.local.stage.deployed import install_environment
from stepline.local.stage.program_image import BASE_VARIABLE
from tests.tiers import ROOT

PAGE = (ROOT / "docs/how-to/serve.md").read_text()
(DOCKERFILE,) = re.findall(r"^```dockerfile\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
(PYTHON,) = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)
BASE = """\
FROM {base}
RUN command -v pip || python3 -m venv /opt/python
ENV PATH=/opt/python/bin:$PATH PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels
COPY wheels /wheels
"""
NAME = "stepline-serve-test"
ASK = """\
import sys, urllib.error, urllib.request
asked = urllib.request.Request("http://127.0.0.1:8040" + sys.argv[1], method=sys.argv[2])
asked.add_header("Authorization", "Bearer a.b.c")
try:
    print(urllib.request.urlopen(asked).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""


def run(*command: str, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout).strip()


def find_base() -> str:
    """Return an image with Python that this machine has; "" without one, or without Docker."""
    for base in (PYTHON, install_environment().get(BASE_VARIABLE, "")):
        try:
            done = subprocess.run(["docker", "image", "inspect", base], capture_output=True, check=False)
        except FileNotFoundError:
            return ""
        if base and done.returncode == 0:
            return base
    return ""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page's image, with the wheel of this checkout."""
    base = find_base()
    if not base:
        pytest.skip("no Docker, or no image with Python: .ci/docker makes one")
    build_server(print)
    folder: Path = tmp_path_factory.mktemp("image")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist"), cwd=ROOT)
    (wheel,) = (folder / "dist").iterdir()
    version = run(
        "docker", "run", "--rm", base, "python3", "-c", "import sys; print(*sys.version_info[:2], sep='.')"
    )
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "--python-version", version]
    run(*pip, "-d", str(folder / "wheels"), f"{wheel}[serve]")
    for tag, text in (
        (f"{NAME}-base", BASE.format(base=base)),
        (NAME, DOCKERFILE.replace(PYTHON, f"{NAME}-base")),
    ):
        (folder / "Dockerfile").write_text(text)
        run("docker", "build", "-q", "-t", tag, str(folder))
    yield NAME
    run("docker", "image", "rm", NAME, f"{NAME}-base")


@contextmanager
def container(image: str) -> Iterator[str]:
    """Run the image as a service that may write nothing: it has its own network, with no stage in it."""
    rights = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"]
    health = ["--health-interval", "1s", "--env", "STEPLINE_URL=http://127.0.0.1:9"]
    name = run("docker", "run", "--detach", *rights, *health, image)
    try:
        yield name
    finally:
        run("docker", "rm", "--force", name)


def wait_until_healthy(name: str) -> None:
    """Wait for the first verdict of the health check, or for the end of the container."""
    events = ["docker", "events", "--since", "0", "--format", "{{.Status}}", "--filter", f"container={name}"]
    with subprocess.Popen(events, stdout=subprocess.PIPE, text=True) as watched:
        assert watched.stdout is not None
        verdict = next(line.strip() for line in watched.stdout if line.startswith(("health_status", "die")))
        watched.kill()
    assert verdict == "health_status: healthy", run("docker", "logs", name)


def test_the_image_is_healthy_without_root_and_without_writing_and_ends_when_it_is_stopped(
    image: str,
) -> None:
    with container(image) as name:
        wait_until_healthy(name)
        in_it = ("docker", "exec", name)
        assert run(*in_it, "id", "-un") == "stepline"
        assert json.loads(run(*in_it, "python", "-c", ASK, "/health", "GET"))["status"] == "ok"
        refused = json.loads(run(*in_it, "python", "-c", ASK, "/chat/c-1/messages", "GET"))
        assert refused["code"] == "api_unreachable"
        run("docker", "stop", "--time", "20", name)
        assert run("docker", "inspect", "--format", "{{.State.ExitCode}}", name) == "0"
        first = run("docker", "logs", name).splitlines()[0]
        assert json.loads(first)["url"] == "http://0.0.0.0:8040"
