"""The rules of the house that no linter knows."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ("layers/runtime/python/stepline", "bundles", "lambdas", "stacks", "docs/build")
AROUND = ("tests", "bench")
TEST_LINES, FUNCTION_LINES = 500, 60
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "misc", "base_utils"}
CORE = (
    *("model", "ports", "protocol", "rendering", "events", "timeline", "context", "log", "tools", "delivery"),
    *("programs", "loop", "ingress", "bundle"),
)
ADAPTERS = {
    *(
        "anthropic",
        "aws",
        "bedrock",
        "boto3",
        "botocore",
        "cloudwatch",
        "docker",
        "dynamo",
        "dynamodb",
        "ecs",
    ),
    *("eventbridge", "fargate", "lambda", "oidc", "redis", "s3", "sqs", "subprocess"),
}
NAMED = {
    # Codes are public: clients and stored results know them by these words.
    *("docker_args_refused", "docker_image_missing", "docker_unavailable"),
    *("fargate_config_missing", "fargate_run_failed"),
    # Errors of a step stand in it as the state machine wrote them.
    *("Ecs.", "ECS.", "AmazonECS."),
    # Logs of every runtime, which an archive of the model may not imitate.
    *("docker.err", "docker.out"),
}
"""Literals of the core that name an adapter, each for a reason."""
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def modules(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(*AROUND), ids=name_of)
def test_a_test_module_does_too(path):
    assert len(path.read_text().splitlines()) <= TEST_LINES


@pytest.mark.parametrize("path", modules(*LIBRARY, *AROUND), ids=name_of)
def test_a_function_fits_onto_a_page(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < FUNCTION_LINES, node.name


@pytest.mark.parametrize("path", modules(*LIBRARY), ids=name_of)
def test_a_module_is_named_for_what_it_holds_and_finished(path):
    assert path.stem not in VAGUE
    assert not UNFINISHED.search(path.read_text())


def words_of(text):
    """Return the words of an identifier or of a text: `AwsLambda.run_task` has four."""
    return {word.lower() for word in WORD.findall(text)}


def identifiers(tree):
    fields = ("id", "attr", "arg", "name", "asname", "module")
    return {
        text
        for node in ast.walk(tree)
        for field in fields
        if isinstance(text := getattr(node, field, None), str)
    }


def literals(tree):
    """Return the texts of a module that are no docstrings."""
    blocks = [node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)]
    docs = {id(one.value) for block in blocks for one in block if isinstance(one, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return {node.value for node in constants if isinstance(node.value, str)}


def adapters_named_in(tree):
    """Return what names an adapter; `process` does as a text only, for it is a word of programs, too."""
    said = identifiers(tree) | literals(tree)
    return {text for text in said if words_of(text) & ADAPTERS} | (literals(tree) & {"process"})


@pytest.mark.parametrize("path", modules(*(f"{LIBRARY[0]}/{name}" for name in CORE)), ids=name_of)
def test_the_core_names_no_adapter(path):
    assert adapters_named_in(ast.parse(path.read_text())) - NAMED == set()


def test_what_names_an_adapter_is_found_and_no_exception_is_left_over():
    code = 'class FargateTask: "ecs"\ndef process(aws_region): use("ecs:runTask", mode="process", at=S3)\n'
    assert adapters_named_in(ast.parse(code)) == {"FargateTask", "aws_region", "ecs:runTask", "process", "S3"}
    core = modules(*(f"{LIBRARY[0]}/{name}" for name in CORE))
    assert set().union(*(literals(ast.parse(path.read_text())) for path in core)) >= NAMED


def test_make_lists_every_target():
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    named = {line.split()[0] for line in listed.splitlines()}
    assert {"chat", "test", "check", "e2e", "bench", "docs", "synth", "up", "down", "clean"} <= named
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named == set(targets)


def test_the_build_can_be_run():
    assert os.access(ROOT / ".ci/run", os.X_OK)
