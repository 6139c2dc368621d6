"""The library as installed, outside a checkout: from the wheel, a wheel made from the sdist, and that of `make dist`."""

import json
import os
import zipfile
from functools import cache

import pytest

from tests.unit.docs.source import LIBRARY, ROOT, files, name
from tests.unit.local.install.fresh_environment import VERSION, Installed, build, run

APP = (
    "app.py",
    "bundles",
    "cdk.json",
    "evals",
    "exec_task",
    "lambdas",
    "package-lock.json",
    "package.json",
    "start.py",
)
BUILDS = (ROOT / "web/dist", ROOT / "web/dist-serve")
"""The chat page and the server of doors, which a wheel contains if they were built."""
HIDDEN = (
    ".dockerignore",
    "web/headers.json",
    *(name(path) for path in ROOT.glob("layers/*/requirements.txt")),
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory, request):
    """Each kind of wheel, made on demand."""
    folder = tmp_path_factory.mktemp("dist")

    @cache
    def made(kind):
        if kind == "checkout":
            return build("wheel", ROOT, folder / "a")
        if kind == "dist":
            (wheel,) = request.getfixturevalue("dist").glob("*.whl")
            return wheel
        # Pythons differ in the warnings of their own unpacking.
        assert run(["tar", "-xf", build("sdist", ROOT, folder / "sdist"), "-C", folder]).returncode == 0
        (source,) = folder.glob("stepline-*")
        return build("wheel", source, folder / "b")

    return made


@pytest.fixture(params=["checkout", "sdist", "dist"])
def wheel(request, wheels):
    return wheels(request.param)


def carried(below):
    """The app's files in git, by their path in a checkout."""
    names = {name(path) for path in files()}
    wanted = {one for one in names if one in HIDDEN or one.split("/")[0] in APP}
    return {below + one for one in wanted}


@pytest.mark.parametrize("wheel", ["checkout", "sdist"], indirect=True)
def test_a_wheel_carries_the_library_and_the_whole_app(wheel):
    with zipfile.ZipFile(wheel) as archive:
        found = {one for one in archive.namelist() if ".dist-info/" not in one}
    library = {
        "stepline/" + path.relative_to(LIBRARY).as_posix() for path in files() if LIBRARY in path.parents
    }
    built = {f"stepline/_app/{name(path)}" for root in BUILDS for path in root.rglob("*") if path.is_file()}
    construct = {name(path) for path in files() if name(path).startswith("stepline_cdk/")}
    assert found == library | construct | carried("stepline/_app/") | built


def test_the_library_alone_says_what_its_command_line_takes(tmp_path, wheel):
    here = Installed(tmp_path, wheel, sees=False)
    for command in (["stepline"], ["python", "-m", "stepline"]):
        helped = here(*command, "--help")
        assert (helped.returncode, helped.stderr) == (0, "")
        assert "pip install 'stepline[local]'" in helped.stdout
        assert here(*command, "--version").stdout == f"{VERSION}\n"
        refused = here(*command, "up")
        assert refused.returncode == 1
        (error,) = refused.stderr.splitlines()
        assert error.startswith("error: needs_extra: ")
        assert "pip install 'stepline[local]'" in error
        assert json.loads(here(*command, "status", "--json").stderr)["code"] == "needs_extra"


def test_an_installed_command_line_keeps_everything_in_the_users_folder(tmp_path, wheel):
    here = Installed(tmp_path, wheel, sees=True)
    before = here.files()
    for command in (["stepline"], ["python", "-m", "stepline"]):
        helped = here(*command, "--help")
        assert helped.returncode == 0, helped.stderr
        assert "\n  up " in helped.stdout
        status = here(*command, "status")
        assert (status.returncode, status.stderr) == (1, ""), status.stderr
        assert "nothing is deployed" in status.stdout
    assert here("stepline", "new", "kiosk").returncode == 0
    built = here("stepline", "knowledge", "build", "kiosk/kiosk")
    assert built.returncode == 0, built.stderr
    played = run([str(here.python), "-m", "unittest"], env={"PATH": os.defpath}, cwd=here.outside / "kiosk")
    assert played.returncode == 0, played.stderr
    assert here.files() == before
    (app,) = here.home.iterdir()
    assert carried("") <= {path.relative_to(app).as_posix() for path in app.rglob("*")}
    library = app / "layers/runtime/python/stepline"
    assert (library / "loop/decide.py").exists()
    assert not (library / "local").exists()


def test_an_installed_server_of_doors_writes_nothing(tmp_path, wheels):
    here = Installed(tmp_path, wheels("checkout"), sees=True)
    assert "Usage: stepline serve" in here("stepline", "serve", "--help").stdout
    assert not here.home.exists()
