"""Builds of this checkout, and environments that have nothing but a wheel."""

import os
import subprocess
import sys
import sysconfig
import tomllib

from stepline.local.stage.deployed import install_environment
from tests.unit.docs.source import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
EPOCH_S = 1_700_000_000
"""The time in the archives of `build_dist`; a copy of the checkout has no commit."""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def build(kind, root, folder):
    """Build a `wheel` or an `sdist` by this environment's hatchling, and return the file."""
    done = run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder], cwd=root)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


def build_dist(folder, root=ROOT):
    """Build all packages as `make dist` does, and return their folder."""
    done = run([root / ".ci/dist", folder], env=install_environment() | {"SOURCE_DATE_EPOCH": str(EPOCH_S)})
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Installed:
    """An environment that has the wheel, and the packages of this one if it `sees` them."""

    def __init__(self, folder, wheel, *, sees):
        self.folder, self.home, self.outside = folder / "env", folder / "home", folder / "outside"
        self.outside.mkdir()
        run([sys.executable, "-m", "venv", "--without-pip", self.folder])
        self.python = self.folder / "bin/python"
        options = ["--offline", "--no-cache", "--no-deps", "--python", self.python]
        done = run([sys.executable, "-m", "uv", "pip", "install", *options, wheel])
        assert done.returncode == 0, done.stderr
        if sees:
            (packages,) = self.folder.glob("lib/*/site-packages")
            (packages / "outer.pth").write_text(sysconfig.get_path("purelib"))

    def __call__(self, *words):
        variables = {"HOME": str(self.outside), "STEPLINE_HOME": str(self.home), "PATH": os.defpath}
        return run([str(self.folder / "bin" / words[0]), *words[1:]], env=variables, cwd=self.outside)

    def files(self):
        return {path for path in self.folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
