import json
import stat
import sys

from aws_cdk.assertions import Match

from stacks.access import ACCESS
from stacks.runtime import ENDED_BADLY, TIMEOUTS_S
from stepline.loop import graph
from stepline.loop.definition import render_definition
from stepline.setting_table import TABLE


def functions(synthesis):
    return {
        properties["Handler"].split(".")[1]: properties
        for properties in synthesis.resources("AWS::Lambda::Function").values()
    }


def definition(synthesis):
    """The machine's definition with each reference to an alias replaced by its function's name."""
    (machine,) = synthesis.resources("AWS::StepFunctions::StateMachine").values()
    parts = machine["DefinitionString"]["Fn::Join"][1]
    return json.loads("".join(part if isinstance(part, str) else _name(part["Ref"]) for part in parts))


def _name(reference):
    if reference == "AWS::Partition":
        return "aws"
    return next(name for name in ACCESS if reference.startswith(f"{name.title()}Live"))


def test_the_machine_is_the_table(any_stage):
    assert definition(any_stage) == render_definition({name: name for name in any_stage.functions})


def test_the_machine_is_standard_and_has_a_fixed_name(any_stage):
    any_stage.runtime.has_resource_properties(
        "AWS::StepFunctions::StateMachine",
        {"StateMachineName": f"stepline-{any_stage.stage.name}-loop", "StateMachineType": "STANDARD"},
    )


def test_every_state_and_every_event_has_its_function(any_stage):
    assert set(functions(any_stage)) == set(any_stage.functions) <= set(TIMEOUTS_S)


def test_only_a_deployment_that_runs_programs_has_the_function_for_it(local, prod):
    assert "execute" in functions(local)
    assert "execute" not in functions(prod)
    assert not {"Prepare", "Launch", "Execute"} & set(definition(prod)["States"])


def test_the_prompt_hears_which_packages_a_program_may_import(local):
    variables = functions(local)["decide"]["Environment"]["Variables"]
    assert variables["STEPLINE_EXEC_PACKAGES"] == "numpy,pandas"


def test_every_function_has_an_alias_and_every_caller_uses_it(any_stage):
    assert len(any_stage.resources("AWS::Lambda::Alias")) == len(any_stage.functions)
    callers = {
        **any_stage.resources("AWS::ApiGatewayV2::Integration"),
        **any_stage.resources("AWS::ApiGatewayV2::Authorizer"),
        **any_stage.resources("AWS::Events::Rule"),
        **any_stage.resources("AWS::Lambda::Permission"),
    }
    for name, caller in callers.items():
        assert "Live" in json.dumps(caller), name


def test_a_function_has_as_long_as_the_table_says(any_stage):
    for name, properties in functions(any_stage).items():
        assert properties["Timeout"] == TIMEOUTS_S[name]
    present = functions(any_stage)
    for task in (task for task in graph.TASKS if task.function in present):
        assert present[task.function]["Timeout"] + 30 <= task.timeout_s


def test_a_function_hears_only_settings_it_can_read(any_stage):
    known = {row.variable for row in TABLE}
    for properties in functions(any_stage).values():
        variables = properties["Environment"]["Variables"]
        assert {name for name in variables if not name.startswith("POWERTOOLS_")} <= known


def test_no_key_of_a_model_is_in_a_template(any_stage):
    for properties in functions(any_stage).values():
        assert "ANTHROPIC_API_KEY" not in properties["Environment"]["Variables"]


def test_in_aws_a_function_runs_python_with_both_layers(prod):
    for properties in functions(prod).values():
        assert properties["Runtime"] == "python3.13"
        assert properties["Architectures"] == ["arm64"]
        assert len(properties["Layers"]) == 2


def test_on_the_emulator_a_function_runs_in_this_environment(local):
    for properties in functions(local).values():
        assert properties["Runtime"] == "provided.al2023"
        assert "Layers" not in properties
    (bootstrap,) = local.folder.glob("asset.*/bootstrap")
    assert bootstrap.stat().st_mode & stat.S_IXUSR
    assert f'exec "{sys.prefix}/bin/python" -m awslambdaric' in bootstrap.read_text()


def test_the_handlers_package_holds_handlers_and_bundles_only(prod):
    roots = {path.name for asset in prod.folder.glob("asset.*") for path in asset.iterdir()}
    assert roots <= {"lambdas", "bundles", "python"}


def test_the_library_layer_leaves_the_local_stage_at_home(prod):
    (library,) = prod.folder.glob("asset.*/python/stepline")
    assert (library / "loop/graph.py").exists()
    assert not (library / "local").exists()


def test_snapstart_is_for_those_a_person_waits_for_and_only_in_prod(prod, local):
    quick = {name for name, properties in functions(prod).items() if "SnapStart" in properties}
    assert quick == {"authorizer", "socket", "decide"}
    assert not any("SnapStart" in properties for properties in functions(local).values())


def test_a_browser_is_let_in_by_the_authorizer_and_not_refused_before(any_stage):
    (gate,) = any_stage.resources("AWS::ApiGatewayV2::Authorizer").values()
    assert gate["AuthorizerType"] == "REQUEST"
    assert not gate.get("IdentitySource")
    routes = {route["RouteKey"]: route for route in any_stage.resources("AWS::ApiGatewayV2::Route").values()}
    assert set(routes) == {"$connect", "$disconnect", "$default"}
    assert routes["$connect"]["AuthorizationType"] == "CUSTOM"


def test_the_gateway_is_throttled(any_stage):
    any_stage.runtime.has_resource_properties(
        "AWS::ApiGatewayV2::Stage",
        {"DefaultRouteSettings": {"ThrottlingBurstLimit": 100, "ThrottlingRateLimit": 50}},
    )


def test_an_execution_that_ends_badly_wakes_the_sweeper(any_stage):
    any_stage.runtime.has_resource_properties(
        "AWS::Events::Rule",
        {
            "EventPattern": Match.object_like(
                {
                    "detail-type": ["Step Functions Execution Status Change"],
                    "detail": Match.object_like({"status": list(ENDED_BADLY)}),
                }
            )
        },
    )


def test_the_sweepers_clock_ticks_in_aws_only(prod, local):
    for synthesis, state in ((prod, "ENABLED"), (local, "DISABLED")):
        synthesis.runtime.has_resource_properties(
            "AWS::Events::Rule", {"ScheduleExpression": "rate(5 minutes)", "State": state}
        )


def test_the_emulated_api_keeps_its_address(local, prod):
    (api,) = local.resources("AWS::ApiGatewayV2::Api").values()
    assert api["Tags"] == {"ms-custom-id": "stepline"}
    (api,) = prod.resources("AWS::ApiGatewayV2::Api").values()
    assert "Tags" not in api
