"""Fixtures of several packages. Modules that need an extra are imported where they are used."""

import pytest


@pytest.fixture
def aws(monkeypatch):
    from moto import mock_aws

    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "STEPLINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield


@pytest.fixture(scope="session")
def checking_python():
    """A Python in which bundles are checked: it has the imports of the check, and nothing of a bundle."""
    from tests.support.warm_python import WarmPython

    there = WarmPython(
        "stepline.local.stage.bundle_check",
        "stepline.bootstrap.memory_wiring",
        "stepline.bundle.deployable",
        "stepline.programs.bundle_files",
        "stepline.testing",
    )
    yield there
    there.close()


@pytest.fixture
def checks(checking_python, monkeypatch):
    """Start no Python for each check of a bundle."""
    from stepline.local.stage import bundle_code

    checking_python.serve(bundle_code, monkeypatch)


@pytest.fixture(scope="session")
def installing_python():
    from tests.support.warm_python import WarmPython

    there = WarmPython("pip._internal.cli.main_parser", "pip._internal.commands.configuration")
    yield there
    there.close()


@pytest.fixture
def installs(installing_python, monkeypatch):
    """Start no Python and no uv for each read of pip's settings."""
    from stepline.local.install import package
    from stepline.local.stage import program_image

    installing_python.serve(package, monkeypatch)
    installing_python.serve(program_image, monkeypatch)


@pytest.fixture
def gateway():
    from tests.unit.local.client.gateway import running_gateway

    with running_gateway() as running:
        yield running
