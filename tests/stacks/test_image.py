import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import boto3
import pytest
from aws_cdk.assertions import Template
from moto import mock_aws

from stepline.local.stage.program_image import SOURCES
from stepline_cdk import image_start
from stepline_cdk.execution import Execution
from stepline_cdk.image import BASE, DOCKERFILE, render_buildspec
from stepline_cdk.stage import Stage
from tests.stacks.conftest import CONTEXT, cdk


class Synthesis:
    """The execution stack of a stage that says this of its image."""

    def __init__(self, image, folder, *, requirements=()):
        app = cdk.App(outdir=str(folder), context=CONTEXT)
        stage = Stage(name="dev", exec_mode="fargate", exec_image=image)
        stack = cdk.Stack(app, "stepline-dev-exec")
        Execution(stack, stage, requirements=requirements)
        self.template = Template.from_stack(stack)
        self.folder = Path(app.synth().directory)
        self.assets = json.loads((self.folder / "stepline-dev-exec.assets.json").read_text())

    def resource(self, kind):
        (found,) = self.template.find_resources(kind).values()
        return found["Properties"]

    def images(self):
        return [
            container["Image"]
            for container in self.resource("AWS::ECS::TaskDefinition")["ContainerDefinitions"]
        ]

    def sources(self):
        """What the builder is given, by path."""
        (asset,) = self.folder.glob("asset.*")
        return {path.relative_to(asset).as_posix() for path in asset.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def asset(tmp_path_factory):
    return Synthesis("asset", tmp_path_factory.mktemp("asset"))


@pytest.fixture(scope="module")
def codebuild(tmp_path_factory):
    return Synthesis("codebuild", tmp_path_factory.mktemp("codebuild"))


@pytest.fixture
def caller():
    """A CloudFormation that waits for an answer: its address, and what it heard."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append((json.loads(body), self.headers["Content-Type"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/answer?signature=a%2Fb", heard
        server.shutdown()
        thread.join()


def event(url, kind="Create"):
    return {
        "RequestType": kind,
        "ResponseURL": url,
        "StackId": "arn:stack",
        "RequestId": "request-1",
        "LogicalResourceId": "Image",
        "ResourceProperties": {"Project": "stepline-dev-exec-image", "Tag": "abc"},
    }


def test_tasks_need_an_image(tmp_path):
    with pytest.raises(ValueError, match="exec_image"):
        Synthesis("none", tmp_path)


def test_an_external_image_is_used_unchanged(tmp_path):
    found = Synthesis("registry.example/programs@sha256:abc", tmp_path)
    assert found.images() == ["registry.example/programs@sha256:abc"] * 2
    assert not found.template.find_resources("AWS::ECR::Repository")


def test_an_asset_is_built_when_it_is_deployed_and_for_arm(asset):
    (found,) = asset.assets["dockerImages"].values()
    assert found["source"]["dockerFile"] == DOCKERFILE
    assert found["source"]["platform"] == "linux/arm64"
    assert found["source"]["dockerBuildArgs"] == {"BASE": BASE}
    assert "executable" not in found["source"]
    assert not asset.template.find_resources("AWS::CodeBuild::Project")


def test_the_build_gets_the_sources_of_the_image_and_nothing_else(asset, codebuild):
    for found in (asset.sources() - {".dockerignore"}, codebuild.sources()):
        assert {
            DOCKERFILE,
            "exec_task/task.py",
            "exec_task/executor/main.py",
            "exec_task/requirements.lock",
            "layers/deps/requirements.txt",
            "layers/runtime/python/stepline/model/program/handover.py",
            "bundles/default/tools_descriptor.py",
        } <= found
        assert all(name.startswith(SOURCES) for name in found)
        assert not [name for name in found if "/local/" in name or "__pycache__" in name]


def test_the_image_has_the_packages_of_the_bundles_in_every_build(codebuild, tmp_path):
    files = ("bundles/a/requirements.txt", "bundles/b/requirements.lock")
    (found,) = Synthesis("asset", tmp_path / "asset", requirements=files).assets["dockerImages"].values()
    assert found["source"]["dockerBuildArgs"] == {"BASE": BASE, "REQUIREMENTS": " ".join(files)}
    built = Synthesis("codebuild", tmp_path / "codebuild", requirements=files)
    variables = built.resource("AWS::CodeBuild::Project")["Environment"]["EnvironmentVariables"]
    assert {"Name": "REQUIREMENTS", "Type": "PLAINTEXT", "Value": " ".join(files)} in variables
    (plain, tag) = (one.resource("Custom::SteplineImage")["Tag"] for one in (codebuild, built))
    assert tag.startswith(plain)
    assert tag != plain


def test_a_build_in_aws_has_the_rights_of_a_build(codebuild):
    role = next(
        policy["Properties"]["PolicyDocument"]["Statement"]
        for name, policy in codebuild.template.find_resources("AWS::IAM::Policy").items()
        if "BuildRole" in name
    )
    everywhere = [statement["Action"] for statement in role if statement["Resource"] == "*"]
    assert everywhere == ["ecr:GetAuthorizationToken"]
    assert {
        action.partition(":")[0]
        for statement in role
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    } == {"ecr", "logs", "s3"}


def test_a_build_in_aws_happens_when_the_sources_change_on_the_tasks_kind_of_machine(codebuild):
    project = codebuild.resource("AWS::CodeBuild::Project")
    assert project["Environment"]["Type"] == "ARM_CONTAINER"
    assert json.loads(project["Source"]["BuildSpec"]) == render_buildspec()
    build = codebuild.resource("Custom::SteplineImage")
    assert build["Tag"] in json.dumps(project["Source"]["Location"])
    assert int(build["ServiceTimeout"]) > project["TimeoutInMinutes"] * 60
    for image in codebuild.images():
        assert build["Tag"] in json.dumps(image)
    (definition,) = codebuild.template.find_resources("AWS::ECS::TaskDefinition").values()
    (resource,) = codebuild.template.find_resources("Custom::SteplineImage")
    assert resource in definition["DependsOn"], "the former image serves until this one is built"


@pytest.mark.parametrize(
    ("there", "expected"), [(True, ["login", "manifest"]), (False, ["login", "manifest", "build", "push"])]
)
def test_sources_that_were_built_before_are_not_built_again_under_their_tag(
    codebuild, tmp_path, there, expected
):
    assert codebuild.resource("AWS::ECR::Repository")["ImageTagMutability"] == "IMMUTABLE"
    calls = tmp_path / "calls"
    for name, body in {
        "aws": "echo password",
        "docker": f'cat >/dev/null; echo "$1" >>{calls}; echo "$@" >>{tmp_path}/words; [ "$1" != manifest ] || exit {0 if there else 1}',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "REPOSITORY": "a/b",
        "TAG": "t",
        "BASE": "c",
        "REQUIREMENTS": "d/e f",
    }
    for command in render_buildspec()["phases"]["build"]["commands"]:
        subprocess.run(["/bin/sh", "-c", command], env=variables, check=True, stdin=subprocess.DEVNULL)
    assert calls.read_text().split() == expected
    assert ("--build-arg REQUIREMENTS=d/e f " in (tmp_path / "words").read_text()) is not there


def test_the_starter_fits_into_a_template(codebuild):
    source = codebuild.resource("AWS::Lambda::Function")["Code"]["ZipFile"]
    assert source == Path(image_start.__file__).read_text()
    assert len(source) <= 4096


def test_deleting_is_answered_at_once_with_no_header_that_breaks_the_signature(caller):
    url, heard = caller
    image_start.handler(event(url, "Delete"), None)
    ((answer, content_type),) = heard
    assert (answer["Status"], answer["RequestId"], content_type) == ("SUCCESS", "request-1", "")


@mock_aws
def test_a_build_that_cannot_be_started_is_reported_and_raised(caller, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    url, heard = caller
    with pytest.raises(boto3.client("codebuild").exceptions.ResourceNotFoundException):
        image_start.handler(event(url), None)
    ((answer, _),) = heard
    assert answer["Status"] == "SUCCESS", "the stage is deployed, without programs"
    assert "not started" in answer["Data"]["Result"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, as a build does")
@pytest.mark.parametrize(("succeeding", "result"), [("1", "built"), ("0", "the build failed")])
def test_the_build_itself_says_how_it_ended_and_no_failure_stops_the_deployment(
    caller, monkeypatch, succeeding, result
):
    url, heard = caller
    sent = {}

    class CodeBuild:
        def start_build(self, *, projectName, environmentVariablesOverride):  # noqa: N803 - the service's names
            sent.update({row["name"]: row["value"] for row in environmentVariablesOverride})

    monkeypatch.setattr(image_start.boto3, "client", lambda _: CodeBuild())
    image_start.handler(event(url), None)
    assert not heard, "CloudFormation waits for the build"
    last = the_answer()
    variables = {**sent, "CODEBUILD_BUILD_SUCCEEDING": succeeding, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    subprocess.run(["/bin/sh", "-c", last], env=variables, check=True)
    ((answer, content_type),) = heard
    assert answer["Status"] == "SUCCESS"
    assert answer["Data"]["Result"].startswith(result)
    assert answer["PhysicalResourceId"] == "Image"
    assert not content_type


def test_a_build_that_no_deployment_started_makes_the_same_image_and_answers_no_deployment(codebuild):
    variables = {
        one["Name"]: one["Value"]
        for one in codebuild.resource("AWS::CodeBuild::Project")["Environment"]["EnvironmentVariables"]
    }
    assert variables["TAG"] == codebuild.resource("Custom::SteplineImage")["Tag"]
    there = {"PATH": "/usr/bin:/bin", "ANSWER_URL": variables["ANSWER_URL"]}
    subprocess.run(["/bin/sh", "-c", the_answer()], env=there, check=True)


def the_answer():
    """The command with which a build reports its end."""
    (last,) = render_buildspec()["phases"]["post_build"]["commands"]
    return last
