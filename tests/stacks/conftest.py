import os
import sys
from pathlib import Path

import pytest

cdk = pytest.importorskip("aws_cdk", reason="needs aws-cdk-lib: pip install -e '.[local,test]'")
from aws_cdk.assertions import Template  # noqa: E402 - only where the CDK is installed

from stacks.access import function_names  # noqa: E402 - as above
from stacks.code import Code  # noqa: E402 - as above
from stacks.runtime import RuntimeStack  # noqa: E402 - as above
from stacks.stage import Stage  # noqa: E402 - as above
from stacks.state import StateStack  # noqa: E402 - as above

ROOT = Path(__file__).parents[2]


class Synthesis:
    """One stage's templates. The dependency layer is an empty folder: what is in it is tests/stacks/test_layer.py's."""

    def __init__(self, stage, folder):
        app = cdk.App(outdir=str(folder / "cdk.out"))
        (folder / "deps/python").mkdir(parents=True)
        code = (
            Code.for_emulator(ROOT, folder / "code")
            if stage.is_local
            else Code.for_aws(ROOT, deps=folder / "deps")
        )
        state = StateStack(app, stage)
        runtime = RuntimeStack(app, stage, state=state, code=code, packages=("numpy", "pandas"))
        self.stage = stage
        self.functions = function_names(executes=stage.executes)
        self.state = Template.from_stack(state)
        self.runtime = Template.from_stack(runtime)
        self.folder = Path(app.synth().directory)

    def resources(self, kind):
        found = {**self.state.find_resources(kind), **self.runtime.find_resources(kind)}
        return {name: resource["Properties"] for name, resource in found.items()}


@pytest.fixture(scope="session", autouse=True)
def _node_of_this_environment():
    """The CDK runs the first Node on the path; ours is the one that is tested."""
    path = os.environ["PATH"]  # noqa: TID251 - a program path, no setting
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), path])  # noqa: TID251 - as above
    yield
    os.environ["PATH"] = path  # noqa: TID251 - as above


def synthesise(factory, **fields):
    return Synthesis(Stage(**fields), factory.mktemp(fields["name"]))


@pytest.fixture(scope="session")
def prod(tmp_path_factory):
    return synthesise(
        tmp_path_factory,
        name="prod",
        snap_start=True,
        oidc_issuer="https://login.example",
        model_secret_arn="arn:aws:secretsmanager:eu-west-1:111122223333:secret:model-AbCdEf",
    )


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    return synthesise(
        tmp_path_factory,
        name="local",
        endpoint="http://127.0.0.1:4566",
        oidc_issuer="http://127.0.0.1:4567",
        exec_mode="process",
    )


@pytest.fixture(scope="session")
def bedrock(tmp_path_factory):
    return synthesise(tmp_path_factory, name="rocks", model_provider="bedrock")


@pytest.fixture(params=["prod", "local", "bedrock"])
def any_stage(request):
    return request.getfixturevalue(request.param)
