"""The stage under test: what `stepline up` left, if it answers."""

from __future__ import annotations

import asyncio
import secrets
import sys
import urllib.error
import urllib.request

import pytest

from stepline.local.guard.own_server import HEALTH
from stepline.local.stage.deployed import load
from tests.e2e.mode import obstacle, programs_in
from tests.e2e.stage import Stage


@pytest.fixture(autouse=True)
def _own_loop(request):
    """Let a test without a browser run event loops of its own.

    The browser of earlier tests keeps one running in this thread, between its calls, too.
    """
    if "chromium" in request.fixturenames:
        yield
        return
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


@pytest.fixture(scope="session")
def deployed():
    found = load()
    if found is None:
        pytest.skip("no local stage is deployed: run `make up` first")
    for name, url in {
        "emulator": f"{found.endpoint}{HEALTH}",
        "issuer": f"{found.issuer_url}/jwks.json",
    }.items():
        if not answers(url):
            pytest.skip(f"the {name} of the local stage does not answer: run `make up` first")
    return found


@pytest.fixture
def stage(deployed):
    return Stage(deployed)


@pytest.fixture(scope="session")
def deployed_script(deployed):
    """The deployment, if it uses the scripted model."""
    url = deployed.model_url
    if not url or not answers(f"{url}/control/faults"):
        pytest.skip("a real model answers on this stage; this test needs the scripted one")
    return deployed


@pytest.fixture
def scripted(stage, deployed_script):
    """The stage, if it uses the scripted model."""
    assert stage.deployed is deployed_script
    return stage


@pytest.fixture(params=["process", "docker"])
def executing(request, scripted):
    """The stage with its programs in one mode."""
    why = obstacle(scripted, request.param)
    if why:
        pytest.skip(f"{request.param}: {why}")
    with programs_in(scripted, request.param):
        yield scripted


@pytest.fixture
def computing(scripted):
    """The stage, where programs run as processes."""
    if why := obstacle(scripted, "process"):
        pytest.skip(why)
    with programs_in(scripted, "process"):
        yield scripted


@pytest.fixture
def conversation():
    return f"e2e-{secrets.token_hex(6)}"


@pytest.fixture
def report(capsys):
    """Print what a test counted, whatever pytest captures."""

    def write(text):
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return write


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def pytest_collection_modifyitems(config, items):
    """Leave out what deploys a stage of its own, unless it is asked for."""
    if "enforced" not in config.option.markexpr:
        for item in items:
            if "enforced" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="`make iam` runs this"))
