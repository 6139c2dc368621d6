import json
import stat
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from stepline.settings import TABLE
from stepline_cdk.code import RUNTIME, Code
from stepline_cdk.deployment import Deployment
from stepline_cdk.function import SIZES, SNAPSHOTS
from stepline_cdk.stage import Stage

from .conftest import CONTEXT, PAGE, ROOT


def functions(synthesis):
    return {
        properties["Handler"].split(".")[1]: properties
        for properties in synthesis.resources("AWS::Lambda::Function").values()
    }


def variables(synthesis, name):
    return functions(synthesis)[name]["Environment"]["Variables"]


def test_every_function_of_the_stage_exists_under_its_full_name(any_stage):
    assert set(functions(any_stage)) == set(any_stage.functions) <= set(SIZES)
    for name, properties in functions(any_stage).items():
        assert properties["FunctionName"] == f"stepline-{any_stage.stage.name}-{name}"


def test_every_function_has_an_alias_and_every_caller_uses_it(any_stage):
    aliases = any_stage.resources("AWS::Lambda::Alias").values()
    assert [alias["Name"] for alias in aliases] == ["live"] * len(any_stage.functions)
    callers = {
        kind: any_stage.resources(kind)
        for kind in (
            "AWS::ApiGatewayV2::Integration",
            "AWS::ApiGatewayV2::Authorizer",
            "AWS::Events::Rule",
            "AWS::Lambda::Permission",
        )
    }
    for kind, found in callers.items():
        assert found, kind
        for name, caller in found.items():
            assert "Live" in json.dumps(caller), name


def test_a_function_is_as_large_as_the_table_says(any_stage):
    for name, properties in functions(any_stage).items():
        assert (properties["Timeout"], properties["MemorySize"]) == SIZES[name][:2]


def test_decide_is_capped_and_ingress_has_reservations_if_the_quota_allows(prod):
    reserved = {
        name: properties["ReservedConcurrentExecutions"]
        for name, properties in functions(prod).items()
        if "ReservedConcurrentExecutions" in properties
    }
    assert reserved == {"decide": 686, "authorizer": 19, "socket": 38, "api": 38, "stream": 20}
    assert variables(prod, "socket")["STEPLINE_OPEN_TURNS"] == "686"


@pytest.mark.parametrize(("name", "turns"), [("dev", "6"), ("local", "10")])
def test_without_reservations_the_bound_of_turns_protects_the_ingress(request, name, turns):
    synthesis = request.getfixturevalue(name)
    assert not any("ReservedConcurrentExecutions" in one for one in functions(synthesis).values())
    assert variables(synthesis, "socket")["STEPLINE_OPEN_TURNS"] == turns


def test_functions_that_open_close_or_sweep_turns_know_the_bound(any_stage):
    values = {
        variables(any_stage, name)["STEPLINE_OPEN_TURNS"]
        for name in functions(any_stage)
        if name != "authorizer"
    }
    assert values == {str(any_stage.stage.most_turns)}


def test_each_function_has_a_separate_log_group(any_stage):
    groups = any_stage.entries("AWS::Logs::LogGroup")
    used = {properties["LoggingConfig"]["LogGroup"]["Ref"] for properties in functions(any_stage).values()}
    assert len(used) == len(any_stage.functions)
    assert used <= groups.keys()
    for name, group in groups.items():
        assert group["Properties"]["RetentionInDays"] == any_stage.stage.log_retention_days
        if name in used:
            assert group["Properties"]["LogGroupName"].startswith(f"/stepline/{any_stage.stage.name}/")
        assert group["DeletionPolicy"] == "Delete"


def test_a_function_hears_only_settings_it_can_read(any_stage):
    known = {row.variable for row in TABLE.values()}
    for name in functions(any_stage):
        heard = {one for one in variables(any_stage, name) if not one.startswith("POWERTOOLS_")}
        assert heard <= known


def test_no_key_of_a_model_is_in_a_template(any_stage):
    for name in functions(any_stage):
        assert "ANTHROPIC_API_KEY" not in variables(any_stage, name)


def test_in_aws_a_function_runs_python_with_its_layers(prod):
    for name, properties in functions(prod).items():
        assert properties["Runtime"] == "python3.14"
        assert properties["Architectures"] == ["arm64"]
        assert len(properties["Layers"]) == {"act": 4, "serve": 4, "search": 3}.get(name, 2)


def test_a_stack_has_only_the_layers_of_its_functions(prod):
    for name, most in (("ingress", 4), ("loop", 4)):
        template = prod.templates[name]
        layers = template.find_resources("AWS::Lambda::LayerVersion")
        assert len(layers) == most
        for function in template.find_resources("AWS::Lambda::Function").values():
            assert {layer["Ref"] for layer in function["Properties"].get("Layers", ())} <= layers.keys()


def test_on_the_emulator_a_function_runs_in_this_environment(local):
    for properties in functions(local).values():
        assert properties["Runtime"] == "provided.al2023"
        assert "Layers" not in properties
    (bootstrap,) = local.folder.glob("asset.*/bootstrap")
    assert bootstrap.stat().st_mode & stat.S_IXUSR
    assert f'exec "{sys.prefix}/bin/python" -m awslambdaric' in bootstrap.read_text()


def test_the_handlers_package_holds_handlers_and_bundles_only(dev):
    roots = {path.name for asset in dev.folder.glob("asset.*") for path in asset.iterdir()}
    page = {path.name for path in PAGE.iterdir()} | {"page_upload.py"}
    assert roots - page <= {"lambdas", "bundles", "python"}


def test_the_handlers_package_holds_the_agent_that_answers_out_of_the_box(dev, local):
    for folder in (dev.folder, local.folder):
        (handlers,) = {path.parents[1] for path in folder.glob("asset.*/lambdas/decide.py")}
        assert (handlers / "bundles/default/tools_descriptor.py").is_file()


def test_the_library_layer_leaves_the_local_stage_at_home(prod):
    (library,) = prod.folder.glob("asset.*/python/stepline")
    assert (library / "loop/graph.py").exists()
    assert not (library / "local").exists()
    assert not (library / "testing.py").exists()


def test_snapshots_are_for_those_a_first_token_waits_for_and_only_where_the_stage_wants_them(
    prod, dev, local
):
    quick = {name for name, properties in functions(prod).items() if "SnapStart" in properties}
    assert quick == {"socket", "decide"} == set(SNAPSHOTS)
    for synthesis in (dev, local):
        assert not any("SnapStart" in properties for properties in functions(synthesis).values())


@pytest.mark.parametrize("changed", [(), ("runtime",), ("deps", "authorizer")])
def test_a_change_of_a_layer_alone_moves_live_to_new_versions(tmp_path, changed):
    def versions(folder, *, changed=()):
        layers = []
        for name in ("runtime", "deps", "authorizer"):
            module = folder / name / "python/module.py"
            module.parent.mkdir(parents=True)
            module.write_text("new" if name in changed else "old")
            layers.append(folder / name)
        app = cdk.App(outdir=str(folder / "cdk.out"), context=CONTEXT)
        code = Code(runtime=RUNTIME, folder=ROOT, layers=tuple(layers[:2]), acting=tuple(layers[2:]))
        stacks = Deployment(app, Stage(name="dev", exec_image="none"), code=code, packages=()).stacks
        app.synth()
        templates = [Template.from_stack(stack) for stack in stacks.values()]
        return {name for template in templates for name in template.find_resources("AWS::Lambda::Version")}

    before, after = versions(tmp_path / "before"), versions(tmp_path / "after", changed=changed)
    assert before
    assert (before & after) == (set() if changed else before)


@pytest.mark.parametrize(
    ("name", "holders"),
    [
        ("LayerMemory", {"act", "serve", "search"}),
        ("LayerMcp", {"act", "serve"}),
        ("LayerAuthorizer", {"authorizer"}),
    ],
)
def test_only_functions_that_search_or_call_servers_have_those_layers(prod, name, holders):
    layers = [found for found in prod.entries("AWS::Lambda::LayerVersion") if found.startswith(name)]
    having = {
        named
        for named, properties in functions(prod).items()
        if any(layer in str(properties.get("Layers")) for layer in layers)
    }
    assert having == holders


def test_act_has_disk_space_for_files_of_tasks(prod):
    sizes = {
        properties["Handler"]: properties.get("EphemeralStorage")
        for properties in prod.resources("AWS::Lambda::Function").values()
    }
    assert sizes["lambdas.act.handler"] == {"Size": 2048}
    assert sizes["lambdas.close.handler"] == {"Size": 512}


def test_a_bundle_of_a_users_folder_lies_beside_the_handlers_of_the_local_stage(tmp_path):
    (tmp_path / "bundle/shop").mkdir(parents=True)
    (tmp_path / "bundle/shop/__init__.py").write_text("")
    (tmp_path / "bundle/bundles").mkdir()
    (tmp_path / "bundle/bundles/mine.py").write_text("")
    code = Code.for_emulator(ROOT, tmp_path / "code", bundle=tmp_path / "bundle")
    app = cdk.App(outdir=str(tmp_path / "cdk.out"), context=CONTEXT)
    stage = Stage(
        name="local", endpoint="http://127.0.0.1:4566", oidc_issuer="http://127.0.0.1:4567", bundle="shop"
    )
    Deployment(app, stage, code=code, packages=())
    staged = Path(app.synth().directory)
    (asset,) = {path.parent for path in staged.glob("asset.*/bootstrap")}
    assert (asset / "lambdas/decide.py").exists()
    assert (asset / "bundles/default/workflow.py").exists()
    assert (asset / "bundles/mine.py").exists()
    assert (asset / "shop/__init__.py").exists()
