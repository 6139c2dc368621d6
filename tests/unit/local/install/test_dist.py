"""The files of `make dist`: equal wherever they are built, complete, and of use where nothing else is."""

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from stepline.local.page.page_build import WEB, install_page_packages
from stepline.local.stage.deployed import install_environment
from tests.unit.docs.source import ROOT
from tests.unit.local.install.fresh_environment import EPOCH_S, VERSION, Installed, build_dist, run

PAGE = "stepline/_app/web/dist/assets/licenses.md"
SERVER = "stepline/_app/web/dist-serve/licenses.md"


@pytest.fixture(scope="module")
def wheel(dist):
    with zipfile.ZipFile(dist / f"stepline-{VERSION}-py3-none-any.whl") as archive:
        yield archive


TWO = """
import aws_cdk as cdk
from stepline_cdk import Agent

app = cdk.App()
stack = cdk.Stack(cdk.Stage(app, "Beta"), "kiosk")
for name in ("First", "Second"):
    Agent(stack, name, bundle="kiosk")
app.synth()
"""
"""An app with two agents in one stack, inside a stage of the CDK."""


def sums(folder):
    """The checksums of a folder's files by the list in it."""
    return dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())


def test_every_file_is_listed_with_its_checksum(dist):
    assert sorted(sums(dist)) == [
        f"stepline-{VERSION}-py3-none-any.whl",
        f"stepline-{VERSION}.tar.gz",
        f"stepline-ag-ui-{VERSION}.tgz",
        f"stepline-ai-sdk-{VERSION}.tgz",
        f"stepline-client-{VERSION}.tgz",
    ]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}
    assert found.items() - sums(dist).items() == {("SHA256SUMS", found["SHA256SUMS"])}


def test_a_build_of_a_copy_elsewhere_is_the_same_byte_for_byte(dist, tmp_path):
    copy = tmp_path / "another folder"
    assert run([ROOT / ".ci/copy", copy]).returncode == 0
    assert run(["git", "init", "-q", copy]).returncode == 0
    assert run(["chmod", "-R", "go-rwx", copy]).returncode == 0
    assert sums(build_dist(tmp_path / "dist", copy)) == sums(dist)


def test_archives_have_the_given_time(dist, wheel):
    with tarfile.open(dist / f"stepline-{VERSION}.tar.gz") as archive:
        assert {member.mtime for member in archive} == {EPOCH_S}
    assert {one.date_time for one in wheel.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_the_wheel_says_what_it_is_and_has_its_licences(wheel):
    said = message_from_bytes(wheel.read(f"stepline-{VERSION}.dist-info/METADATA"))
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("stepline", VERSION, "MIT")
    assert said["License-File"] == "LICENSE"
    assert wheel.read(f"stepline-{VERSION}.dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert "Typing :: Typed" in said.get_all("Classifier")
    assert "stepline/py.typed" in wheel.namelist()


@pytest.mark.parametrize(
    ("list_", "packages"),
    [
        (PAGE, {"diff", "highlight.js", "marked", "preact", "temml"}),
        (SERVER, {"@ag-ui/core", "@modelcontextprotocol/server", "ai", "zod"}),
    ],
)
def test_the_built_page_and_server_have_the_licences_of_their_packages(wheel, list_, packages):
    named = re.findall(r"^## (\S+) - [\d.]+ \(", wheel.read(list_).decode(), re.MULTILINE)
    assert packages <= set(named)


def test_the_npm_packages_work_in_fresh_projects(dist):
    install_page_packages(print)
    done = run(
        ["node", "node_modules/vitest/vitest.mjs", "run", "tests/door/packages.test.ts"],
        cwd=WEB,
        env=install_environment() | {"STEPLINE_DIST": str(dist)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def variables_of(here):
    """The variables of a shell in which the wheel's environment comes first; Node, which the CDK runs, is that of ours."""
    places = os.pathsep.join([str(here.python.parent), str(Path(sys.executable).parent), os.defpath])
    return install_environment() | {
        "PATH": places,
        "STEPLINE_HOME": str(here.home),
        "STEPLINE_EXEC_MODE": "none",
    }


@pytest.mark.emulator
def test_an_app_of_your_own_has_a_first_turn_on_the_local_stage(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    here = Installed(tmp_path, wheel, sees=True)

    folder = here.outside / "kiosk"

    def stepline(*words, at=folder):
        return run(["stepline", *words], env=variables_of(here), cwd=at)

    def done(*words, at=folder):
        ended = stepline(*words, at=at)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    done("new", "kiosk", "--cdk", at=here.outside)
    done("knowledge", "build", "kiosk")
    try:
        done("up", "--app", ".")
        assert "sent on Monday" in done("send", "--new", "Where is order A-17?")
        (folder / "app.py").write_text(TWO)
        assert "deleted the stack kiosk" in stepline("up", "--app", ".").stderr
        assert "sent on Monday" in done("send", "--new", "Where is order A-17?")
        assert json.loads(done("status", "--json"))["stage"]["stack"] == "Beta-kiosk"
        assert "other_app" in stepline("up", "--app", ".", "--agent", "Beta/kiosk/Second").stderr
    finally:
        done("down")


def test_the_construct_of_the_wheel_is_typed(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    here = Installed(tmp_path, wheel, sees=True)
    wrong = (ROOT / "examples/hello/app.py").read_text().replace('bundle="greeter"', "bundle=7, alarms=[]")
    (here.outside / "wrong.py").write_text(wrong)
    shutil.copy(ROOT / "examples/hello/app.py", here.outside)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        here.python,
        "--no-incremental",
    ]
    assert run([*command, "app.py"], cwd=here.outside).returncode == 0
    said = run([*command, "wrong.py"], cwd=here.outside).stdout
    assert '"bundle" to "Agent" has incompatible type "int"' in said
    assert '"alarms" to "Agent" has incompatible type "list[' in said


def test_an_app_of_your_own_synthesises_the_construct_of_the_wheel(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    here = Installed(tmp_path, wheel, sees=True)
    before = here.files()
    shutil.copytree(ROOT / "examples/hello", here.outside, dirs_exist_ok=True)
    variables = variables_of(here) | {"CDK_OUTDIR": "out"}
    done = run([str(here.python), "app.py"], env=variables, cwd=here.outside)
    assert done.returncode == 0, done.stdout + done.stderr
    template = json.loads((here.outside / "out/Hello.template.json").read_text())
    kinds = {one["Type"] for one in template["Resources"].values()}
    assert {"AWS::ApiGatewayV2::Api", "AWS::Lambda::Function", "AWS::StepFunctions::StateMachine"} <= kinds
    assert "Socket" in template["Outputs"]
    assert here.files() == before
