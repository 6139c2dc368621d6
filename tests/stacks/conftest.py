import json
import os
import sys
from pathlib import Path

import pytest

cdk = pytest.importorskip("aws_cdk", reason="needs aws-cdk-lib: pip install -e '.[local,test]'")
from aws_cdk.assertions import Template  # noqa: E402 - only where the CDK is installed

from stepline.settings import TABLE, Settings, print_value, read_packaged  # noqa: E402 - as above
from stepline_cdk.deployment import Deployment  # noqa: E402 - as above
from stepline_cdk.page_files import read_page  # noqa: E402 - as above
from stepline_cdk.stage import Stage  # noqa: E402 - as above
from tests.stacks.empty_layers import code_of  # noqa: E402 - as above
from tests.stacks.role import Roles  # noqa: E402 - as above

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests/data/page"
"""The chat page of tests: a few files in the place of the built one."""
PAGE_STACKS = ("edge", "page")
RETIREMENT = "Retirement"
"""What the ids of resources begin with that delete former versions: the stack's own, none of the agent's."""
TOPIC = "arn:aws:sns:eu-west-1:111122223333:calls"
BILLING = "arn:aws:iam::111122223333:role/billing"
CONTEXT = json.loads((ROOT / "cdk.json").read_text())["context"]


class Synthesis:
    """One stage's templates."""

    def __init__(self, stage, folder):
        app = cdk.App(outdir=str(folder / "cdk.out"), context=CONTEXT)
        files = read_page(ROOT, stage.named_modules, dist=PAGE) if stage.page else None
        deployment = Deployment(
            app, stage, code=code_of(stage, folder), packages=("numpy", "pandas"), files=files
        )
        self.stage = stage
        self.functions = [*deployment.ingress.functions, *deployment.loop.functions]
        self.assembly = app.synth()
        self.folder = Path(self.assembly.directory)
        self.templates = {word: Template.from_stack(stack) for word, stack in deployment.stacks.items()}
        self.roles = Roles(self.documents())

    def entries(self, kind, *, of_page=False):
        """The resources of a kind by their logical ids: in the agent's stacks, or in those of its page."""
        found = {}
        for name, template in self.templates.items():
            if (name in PAGE_STACKS) is of_page:
                found |= template.find_resources(kind)
        return {key: entry for key, entry in found.items() if not key.startswith(RETIREMENT)}

    def resources(self, kind, *, of_page=False):
        return {name: entry["Properties"] for name, entry in self.entries(kind, of_page=of_page).items()}

    def documents(self):
        """Every stack's template, by the stack's short name."""
        return {name: template.to_json() for name, template in self.templates.items()}


def deployed_function(synthesis, name):
    """The properties of a function of ours."""
    found = synthesis.resources("AWS::Lambda::Function").values()
    (properties,) = [one for one in found if one["Handler"] == f"lambdas.{name}.handler"]
    return properties


def deployed_variables(synthesis, name):
    """The variables of a function, but for those that refer to a resource."""
    variables = deployed_function(synthesis, name)["Environment"]["Variables"]
    return {name: text for name, text in variables.items() if isinstance(text, str)}


def package_of(synthesis, name):
    """The folder of a function's code."""
    key = deployed_function(synthesis, name)["Code"]["S3Key"]
    return synthesis.folder / f"asset.{key.removesuffix('.zip')}"


def deployed_settings(synthesis, name):
    """The settings of a deployed function: the template's variables, and the files of its package."""
    return Settings.from_env(read_packaged(deployed_variables(synthesis, name), package_of(synthesis, name)))


def with_defaults(variables):
    """The variables of a function, and the defaults of those that are left out."""
    return {row.variable: print_value(row.default) for row in TABLE.values()} | variables


@pytest.fixture(scope="session", autouse=True)
def _node_of_this_environment():
    """The CDK runs the first Node on the path; ours is the one that is tested."""
    path = os.environ["PATH"]  # noqa: TID251 - a program path, no setting
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), path])  # noqa: TID251 - as above
    yield
    os.environ["PATH"] = path  # noqa: TID251 - as above


def synthesise(factory, **fields):
    """A stage without programs, unless an image is named."""
    return Synthesis(Stage(**{"exec_image": "none", **fields}), factory.mktemp(fields["name"]))


@pytest.fixture(scope="session")
def prod(tmp_path_factory):
    return synthesise(
        tmp_path_factory,
        name="prod",
        snap_start=True,
        alarms=True,
        alarm_topic_arn=TOPIC,
        dashboard=True,
        exec_mode="fargate",
        exec_image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1",
        allowed_origins=("https://chat.example",),
        model_secret_arn="arn:aws:secretsmanager:eu-west-1:111122223333:secret:model-AbCdEf",
        redis_secret_arn="arn:aws:secretsmanager:eu-west-1:111122223333:secret:redis-AbCdEf",
        tracing="on",
        search_provider="brave",
        search_secret_arn="arn:aws:secretsmanager:eu-west-1:111122223333:secret:search-AbCdEf",
        event_source_principals=(BILLING,),
        av="none",
        concurrency=1000,
        stream_readers=20,
    )


@pytest.fixture(scope="session")
def dev(tmp_path_factory):
    return synthesise(tmp_path_factory, name="dev", oidc_issuer="https://login.example")


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    return synthesise(
        tmp_path_factory,
        name="local",
        endpoint="http://127.0.0.1:4566",
        oidc_issuer="http://127.0.0.1:4567",
        exec_mode="process",
        exec_image="",
    )


@pytest.fixture(scope="session")
def bedrock(tmp_path_factory):
    return synthesise(
        tmp_path_factory,
        name="rocks",
        keep_data=False,
        model_provider="bedrock",
        memory="s3_vectors",
        av="guardduty",
        tracing="text",
        tracing_endpoint="https://otlp.example",
        tracing_secret_arn="arn:aws:secretsmanager:eu-west-1:111122223333:secret:traces-AbCdEf",
    )


@pytest.fixture(scope="session")
def shifting(tmp_path_factory):
    """A stage whose releases take over by parts."""
    return synthesise(tmp_path_factory, name="dev", shift="canary", alarms=True)


@pytest.fixture(params=["prod", "dev", "local", "bedrock"])
def any_stage(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A stage whose image is built in AWS, which takes a function and a role that the others do not have."""
    return synthesise(tmp_path_factory, name="built", exec_mode="fargate", exec_image="codebuild")


@pytest.fixture(params=["prod", "dev", "local", "bedrock", "built"])
def every_stage(request):
    return request.getfixturevalue(request.param)
