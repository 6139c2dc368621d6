"""Traces by a switch: layers, variables and rights of the functions that send spans, and of no others."""

import aws_cdk as cdk
import pytest

from stepline_cdk.access import TRACING
from stepline_cdk.code import PYTHON_VERSION, Code, build_deps
from stepline_cdk.deployment import Deployment
from stepline_cdk.stage import Stage
from tests.stacks.conftest import CONTEXT, PAGE, ROOT, Template, read_page

LAYERS_MAX = 5
"""How many Lambda takes of a function."""
ENDPOINT = "https://otlp.example"
SECRET = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:traces-AbCdEf"


def loop_of(folder, **fields):
    """The template of the loop, of a stage whose bundle has packages of its own."""
    app = cdk.App(outdir=str(folder / "cdk.out"), context=CONTEXT)
    stage = Stage(name="dev", oidc_issuer="https://login.example", exec_image="none", **fields)
    for name in ("deps", "memory", "mcp", "packages"):
        (folder / name / "python").mkdir(parents=True)
    code = Code.for_aws(
        ROOT,
        deps=folder / "deps",
        acting=(folder / "memory", folder / "mcp"),
        tracing=ROOT / "layers/tracing" if stage.is_traced else None,
    )
    files = read_page(ROOT, stage.named_modules, dist=PAGE)
    deployment = Deployment(app, stage, code=code, packages=(), files=files)
    ingress, loop = (Template.from_stack(deployment.stacks[word]) for word in ("ingress", "loop"))
    return code, ingress, loop


def functions(*templates):
    return {
        one["Properties"]["Handler"].split(".")[1]: one["Properties"]
        for template in templates
        for one in template.find_resources("AWS::Lambda::Function").values()
        if "Handler" in one["Properties"] and one["Properties"]["Handler"].startswith("lambdas.")
    }


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    return loop_of(tmp_path_factory.mktemp("on"), tracing="on")


def test_those_that_run_a_step_or_sweep_send_spans():
    assert {"decide", "act", "close", "sweeper"} == TRACING


def test_only_traced_functions_have_the_layer_with_tracing_packages(on):
    _, ingress, loop = on
    layers = {
        name: [layer["Ref"].rpartition("Layer")[2][:6] for layer in one["Layers"]]
        for name, one in functions(ingress, loop).items()
    }
    assert {name for name, found in layers.items() if "Traced" in found} == TRACING
    assert {name for name, found in layers.items() if "Runtim" not in found} == TRACING
    assert all(len(one["Layers"]) <= LAYERS_MAX for one in functions(loop).values())


def test_the_tracing_layer_is_the_library_with_the_span_exporter_only(on):
    code, *_ = on
    packages = code.traced / "python"
    assert {"stepline", "opentelemetry", "google"} <= {path.name for path in packages.iterdir()}
    assert (packages / "stepline/loop/decide.py").exists()
    assert not (packages / "stepline/local").exists()
    assert not (packages / "stepline/testing.py").exists()
    assert code.bundle_bytes()[1] > sum(
        path.stat().st_size
        for path in (build_deps(ROOT / "layers/tracing", PYTHON_VERSION) / "python").rglob("*")
        if path.is_file()
    )


def test_a_stage_without_traces_has_no_layer_no_right_and_no_setting(tmp_path):
    _, ingress, loop = loop_of(tmp_path)
    assert not any("Traced" in name for name in loop.find_resources("AWS::Lambda::LayerVersion"))
    assert "xray:" not in str(loop.to_json())
    for found in ({**functions(loop), **functions(ingress)}).values():
        assert "STEPLINE_TRACING" not in found["Environment"]["Variables"]


def test_to_x_ray_a_role_may_add_spans_and_reads_no_secret_for_it(prod):
    for name in TRACING:
        assert "xray:PutTraceSegments" in prod.roles.actions(f"{name.title()}Role"), name
    others = {name for name in prod.functions if name not in TRACING}
    assert not [name for name in others if "xray" in str(prod.roles.actions(f"{name.title()}Role"))]


def test_to_a_server_a_role_may_read_its_headers_and_add_nothing_to_x_ray(bedrock):
    loop = bedrock.templates["loop"].to_json()
    assert "xray:" not in str(loop)
    assert str(loop).count(SECRET) >= len(TRACING)
    variables = functions(bedrock.templates["loop"])["act"]["Environment"]["Variables"]
    assert (variables["STEPLINE_TRACING"], variables["OTEL_EXPORTER_OTLP_ENDPOINT"]) == ("text", ENDPOINT)
    assert variables["STEPLINE_OTLP_SECRET_ARN"] == SECRET


@pytest.mark.parametrize(
    "wrong",
    [
        {"tracing": "loud"},
        {"tracing": "on", "tracing_endpoint": "otlp.example"},
        {"tracing": "on", "tracing_endpoint": "https://user:pass@otlp.example"},
        {"tracing": "on", "tracing_secret_arn": SECRET},
        {"tracing": "on", "tracing_endpoint": ENDPOINT, "tracing_secret_arn": "api-key=s3cret"},
        {"tracing": "on", "name": "local", "endpoint": "http://127.0.0.1:4566"},
    ],
)
def test_traces_that_could_not_be_sent_are_refused(wrong):
    with pytest.raises(ValueError) as refused:
        Stage(**wrong)
    assert "s3cret" not in str(refused.value)
    assert "pass@" not in str(refused.value)
