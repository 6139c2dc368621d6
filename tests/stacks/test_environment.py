"""Each function gets the settings that its wiring reads, and all of them fit."""

import ast
import importlib
import inspect
import json

import pytest

import lambdas.api
import lambdas.authorizer
from lambdas.edge import runtime as edge_runtime
from stepline.adapters.memory.clock import MemoryMeter
from stepline.bootstrap import choice, model_choice, program_backend
from stepline.bootstrap.app import App
from stepline.bootstrap.authentication import identity_of
from stepline.bootstrap.aws_wiring import on_aws
from stepline.bootstrap.erasure_wiring import erasure_on_aws
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.replays.replay_wiring import replays_on_aws
from stepline.bootstrap.upload_wiring import uploads_on_aws
from stepline.errors import InputError
from stepline.model.tenancy.limits import Limits
from stepline.ports.model import RoleChoice
from stepline.settings import TABLE, BundleChoice, Settings, env, read_packaged
from stepline_cdk.environment import (
    ALLOWED,
    EVENTS,
    MAX_BYTES,
    PACKAGED_BYTES,
    READS,
    check_environment,
    function_environment,
)
from tests.support.aws import moto

from .conftest import ROOT, deployed_settings, synthesise

ON_A_MACHINE = {
    *("redis_url", "anthropic_api_key", "search_api_key", "otlp_headers", "anthropic_base_url"),
    *("openai_api_key", "openai_base_url"),
    *("turn_deadline_s", "message_max_chars", "message_max_bytes", "av_timeout_s"),
    *("otlp_timeout_ms", "max_image_bytes", "max_doc_bytes", "exec_timeout_s", "exec_text_preview_max_chars"),
    *("read_visible_max_chars", "read_visible_max_tokens", "read_visible_max_bytes"),
    *("read_visible_context_fraction", "exec_network_mode", "exec_strategy", "fargate_platform_version"),
    "descriptor_payload_scope",
}
"""Settings that no choice of a stage sets."""
EVERY = {
    "machine_arn": "arn:aws:states:eu-west-1:1:stateMachine:loop",
    "callback_url": "https://c.example",
    "table": "t",
    "bucket": "b",
    "tracing": "on",
    "otlp_endpoint": "https://o.example",
    "av_scan": "clamd",
    "clamav_host": "scan.example",
    "search_provider": "brave",
    "stage": "prod",
    "exec_mode": "fargate",
    "fargate_cluster": "c",
    "anthropic_api_key": "k",
    "search_api_key": "k",
}
PROPS = {"tools": {f"tool_{n}": {"module": f"bundles.shop.tools.t{n}", "enabled": True} for n in range(34)}}
SECRET = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:"


class _Watched(Settings):
    """Records the names of the settings that are read."""

    def __getattribute__(self, name):
        if name in TABLE:
            READ.add(name)
        return super().__getattribute__(name)


READ = set()


def wire(kind):
    return on_aws(_Watched.from_env(env(**EVERY)), MemoryMeter(), kind)


def ports(kind=App):
    app = wire(kind)
    later(choice.traces_of)
    return app


def uploads():
    app = ports()
    uploads_on_aws(app.settings, app.ports)


def api():
    app = ports()
    uploads_on_aws(app.settings, app.ports)
    erasure_on_aws(app.settings, app.ports)
    replays_on_aws(app.settings, app.ports)
    later(lambdas.api)


def eraser():
    app = ports()
    erasure_on_aws(app.settings, app.ports)


def agent():
    app = ports(LoopApp)
    assert app.of("") is app
    assert app.agent.execution
    later(
        choice.search_of, choice.search_key, choice.provider_of, choice._anthropic, model_choice, edge_runtime
    )


def execute():
    agent()
    later(program_backend)


def door():
    """It needs the tickets alone of the ports that it wires."""
    identity_of(_Watched.from_env({}))
    later(lambdas.authorizer, edge_runtime.edge, edge_runtime.read_settings)
    READ.add("table")


WIRING = {
    "authorizer": door,
    "socket": ports,
    "api": api,
    "search": api,
    "stream": ports,
    "decide": agent,
    "act": agent,
    "execute": execute,
    "serve": agent,
    "output": ports,
    "preflight": uploads,
    "close": agent,
    "sweeper": ports,
    "eraser": eraser,
}
"""What each function creates on its first calls."""


def later(*sources):
    """Record the settings that modules or functions name, most of which they read when they are first used."""
    for source in sources:
        tree = ast.parse(inspect.getsource(source))
        READ.update(
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and "settings" in ast.unparse(node.value)
            and node.attr in TABLE
        )


def reads(name):
    READ.clear()
    with moto():
        WIRING[name]()
    return READ - ON_A_MACHINE


@pytest.mark.parametrize("name", READS)
def test_a_function_gets_the_settings_that_its_wiring_reads_and_no_others(name):
    assert set(READS[name]) == reads(name)


def test_no_setting_is_read_that_no_function_gets():
    READ.clear()
    for path in sorted((ROOT / "layers/runtime/python/stepline/bootstrap").glob("*.py")):
        later(importlib.import_module(f"stepline.bootstrap.{path.stem}"))
    assert {field for fields in READS.values() for field in fields} >= READ - ON_A_MACHINE


def test_every_function_gets_only_settings_that_it_has_the_right_for(prod):
    for name, properties in functions(prod).items():
        held = {field for field, row in TABLE.items() if row.variable in variables(properties)}
        assert not {field for field in held if name not in ALLOWED.get(field, {name})}, name
    assert EVENTS in ALLOWED["redis_secret_arn"]


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A stage whose bundle has many tools, with every long choice."""
    return synthesise(
        tmp_path_factory,
        name="a-long-name-0123",
        exec_mode="fargate",
        exec_image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1",
        bundle_props=PROPS,
        assembly={"crm": {"url": "https://crm.example/" + "a" * 150}},
        bundles={f"shop-{n}": BundleChoice(module=f"bundles.shop_{n}") for n in range(20)},
        limits={"user": Limits(turns_at_once=3, usd_day=5)},
        prices={"models": [{"model": f"model-{n}", "plain": 1, "read": 1, "output": 1} for n in range(20)]},
        model_roles={name: RoleChoice(model="m" * 60) for name in ("*", "decide", "gate", "summary")},
        allowed_origins=tuple(f"https://chat-{n}.example" for n in range(8)),
        model_secret_arn=f"{SECRET}model-AbCdEf",
        redis_secret_arn=f"{SECRET}redis-AbCdEf",
        search_provider="tavily",
        search_url="https://search.example/" + "a" * 60,
        search_secret_arn=f"{SECRET}search-AbCdEf",
        tracing="text",
        tracing_endpoint="https://otlp.example/" + "a" * 60,
        tracing_secret_arn=f"{SECRET}traces-AbCdEf",
        av="clamd",
        clamav_host="scan.internal.example",
        memory="s3_vectors",
        multi_action="read_write_search",
        oidc_issuer="https://login.example/" + "a" * 60,
    )


def test_the_variables_of_every_function_leave_a_fifth_of_their_space(shop, any_stage):
    for synthesis in (shop, any_stage):
        sizes = {name: measure(variables(one)) for name, one in functions(synthesis).items()}
        assert max(sizes.values()) < 0.8 * MAX_BYTES, sizes


def test_the_properties_of_many_tools_reach_the_functions_in_their_package(shop):
    for name in READS.keys() & functions(shop).keys() - {"authorizer"}:
        settings = deployed_settings(shop, name)
        assert settings.bundle_props == PROPS
        assert settings.bundles["shop-7"].module == "bundles.shop_7"
        assert settings.limits["user"].turns_at_once == 3
    assert "STEPLINE_BUNDLE_PROPS" not in variables(functions(shop)["authorizer"])


def test_long_json_is_in_a_file_with_its_digest_and_short_json_is_a_variable():
    long = {"a": "x" * PACKAGED_BYTES}
    found = function_environment("decide", {"bundle_props": long, "limits": {}, "assembly": {"a": 1}})
    assert found["STEPLINE_ASSEMBLY"] == '{"a": 1}'
    assert found["STEPLINE_BUNDLE_PROPS"].startswith("@settings/bundle_props-")
    other = function_environment("decide", {"bundle_props": {**long, "b": 1}})
    assert other["STEPLINE_BUNDLE_PROPS"] != found["STEPLINE_BUNDLE_PROPS"]
    assert "STEPLINE_LIMITS" not in found


def test_variables_that_lambda_would_refuse_are_refused_with_the_longest_variable_and_its_size():
    origins = tuple(f"https://chat-{n}.example.com" for n in range(200))
    with pytest.raises(InputError) as refused:
        check_environment(
            "authorizer", function_environment("authorizer", {"allowed_origins": origins}) | {"A": "b"}
        )
    assert refused.value.reason == "environment_too_large"
    assert str(refused.value) == (
        "the variables of function authorizer have 5728 bytes, and Lambda takes 4096: shorten the choice allowed_origins"
        " (STEPLINE_ALLOWED_ORIGINS), which takes 5720"
    )


def test_the_size_of_the_variables_is_that_of_one_json_object_with_references_at_their_longest():
    exact = {"A": "x" * (MAX_BYTES - len('{"A":""}'))}
    check_environment("decide", exact)
    for more in ({"A": exact["A"] + "x"}, {"A": exact["A"][1:] + '"'}, {**exact, "B": ""}):
        with pytest.raises(InputError):
            check_environment("decide", more)
    with pytest.raises(InputError):
        check_environment("decide", {"A": "${Token[TOKEN.1]}" * 60})


def test_a_file_that_is_not_in_the_package_is_an_error(tmp_path):
    variables = {"STEPLINE_BUNDLE_PROPS": "@settings/bundle_props-0.json"}
    with pytest.raises(InputError) as missing:
        read_packaged(variables, tmp_path)
    assert missing.value.reason == "bad_setting"
    assert read_packaged({"STEPLINE_BUNDLE": "@x"}, tmp_path) == {"STEPLINE_BUNDLE": "@x"}


def measure(found):
    """The bytes of variables as Lambda counts them, a reference with 80."""
    plain = {name: text if isinstance(text, str) else "x" * 80 for name, text in found.items()}
    return len(json.dumps(plain, separators=(",", ":")).encode())


def functions(synthesis):
    return {
        properties["Handler"].split(".")[1]: properties
        for properties in synthesis.resources("AWS::Lambda::Function").values()
        if properties["Handler"].startswith("lambdas.")
    }


def variables(properties):
    return properties["Environment"]["Variables"]
