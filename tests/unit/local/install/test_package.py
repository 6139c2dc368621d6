"""The packages that a user's set-up installs, and their indexes."""

import re
import sys
import tomllib

import pytest

from stepline.errors import DependencyError
from stepline.local.install.package import link_same, make_environment, pip_configuration, translate
from stepline.local.stage.deployed import REPOSITORY

USER, ALL = "requirements-local.lock", "requirements.lock"


def pins(name):
    """Each pinned package, with its marker and its hashes."""
    blocks = re.split(r"\n(?=[a-z])", (REPOSITORY / name).read_text())
    return {block.split(" \\")[0]: sorted(re.findall(r"sha256:\w+", block)) for block in blocks}


def names(requirements):
    return {re.match(r"[\w.-]+", text)[0].lower() for text in requirements}


def test_a_user_installs_what_the_local_stage_needs_and_no_tool_of_a_test():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    locked = names(pins(USER))
    assert "stepline[memory]" in extras["local"]
    needed = names(project["dependencies"]) | names(extras["local"]) | names(extras["memory"])
    assert needed - {"stepline"} <= locked
    assert not locked & names(extras["test"]) - {"markdown-it-py"}  # a dependency of rich


def test_the_layer_of_memory_has_its_extra_and_nothing_that_downloads_weights():
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    layer = pins(REPOSITORY / "layers/memory/requirements.txt")
    assert names(layer) == names(extras["memory"])
    assert "huggingface-hub" not in names(pins(ALL))


def test_the_layer_of_servers_has_its_extra():
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    layer = pins(REPOSITORY / "layers/mcp/requirements.txt")
    assert names(extras["mcp"]) <= names(layer)
    assert not names(layer) & names(pins(REPOSITORY / "layers/deps/requirements.txt"))


def test_a_user_has_the_versions_that_were_tested():
    everything = pins(ALL)
    assert {name: everything.get(name) for name in pins(USER)} == pins(USER)


def test_packages_come_from_the_indexes_that_pip_is_configured_for(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://one.example/simple\nextra-index-url =\n  https://two.example\n"
        "  https://three.example file:///not/there/simple\nfind-links = /a /b\ntrusted-host = one.example\n"
        "[install]\nindex-url = https://four.example/simple\n[download]\nindex-url = https://five.example\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_CERT", "/own.pem")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path} /not/there")
    found = translate(pip_configuration())
    assert found["UV_DEFAULT_INDEX"] == "https://four.example/simple"
    assert found["UV_INDEX"] == "https://two.example https://three.example"
    assert found["UV_FIND_LINKS"] == str(tmp_path)
    assert found["UV_INSECURE_HOST"] == "one.example"
    assert found["SSL_CERT_FILE"] == "/own.pem"


@pytest.mark.usefixtures("installs")
def test_an_environment_is_made_once_and_a_failing_lock_leaves_it_unchanged(tmp_path, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    lock, folder, said = tmp_path / "lock", tmp_path / "env", []

    def make():
        return make_environment(folder, lock, lambda: said.append("slow"), preload=["json"])

    lock.write_text("")
    python = make()
    assert python.exists()
    assert make() == python
    assert said == ["slow"]
    lock.write_text("absent==1 --hash=sha256:" + "0" * 64)
    with pytest.raises(DependencyError) as failed:
        make()
    assert failed.value.reason == "local_install"
    assert "absent" in str(failed.value)
    assert python.exists()
    lock.write_text("")
    assert make() == python
    assert said == ["slow", "slow"]


def test_a_file_that_two_environments_share_is_stored_once(tmp_path):
    ours, fresh = tmp_path / "ours", tmp_path / "fresh"
    for folder, other in ((ours, "1.0"), (fresh, "2.0")):
        (folder / "numpy").mkdir(parents=True)
        (folder / "numpy/core.so").write_bytes(b"same" * 1000)
        (folder / "numpy/version.py").write_text(other)
    (fresh / "only.py").write_text("here")
    for _ in range(2):
        link_same(fresh, ours)
    assert (fresh / "numpy/core.so").samefile(ours / "numpy/core.so")
    assert (fresh / "numpy/version.py").read_text() == "2.0"
    assert sorted(path.name for path in fresh.rglob("*")) == ["core.so", "numpy", "only.py", "version.py"]


@pytest.mark.usefixtures("installs")
def test_another_python_makes_another_environment(tmp_path, monkeypatch):
    lock, said = tmp_path / "lock", []
    lock.write_text("")
    for version in (sys.version, "4.0"):
        monkeypatch.setattr(sys, "version", version)
        make_environment(tmp_path / "env", lock, lambda: said.append("slow"))
    assert said == ["slow", "slow"]
