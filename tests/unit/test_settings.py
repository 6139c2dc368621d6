import pytest

from stepline.bootstrap.agent_choice import read_caps, task_settings
from stepline.bootstrap.choice import policy
from stepline.bootstrap.memory_wiring import in_memory
from stepline.context.rules import ContextRules
from stepline.errors import InputError
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.model.tenancy.request_rates import Rates
from stepline.ports.model import DECISION_ROLE, ModelServer, RoleChoice
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import TABLE, BundleChoice, Settings, env

OTHER_VALUES = {
    "allowed_origins": ("https://a.example,https://b.example", ("https://a.example", "https://b.example")),
    "project_admins": ("leads,heads", ("leads", "heads")),
    "tenant_admins": ("owners", ("owners",)),
    "max_iterations": ("7", 7),
    "multi_action": ("yes", "safe_fanout"),
    "protocol": ("tolerant", "tolerant"),
    "agent_version": ("v2", "v2"),
    "context_layout": ("journal", "journal"),
    "prices": ('{"aws": {"post": 1.5}}', {"aws": {"post": 1.5}}),
    "rates": ('{"user": {"reads": 600}}', {"user": Rates(reads=600)}),
    "limits": ('{"user": {"usd_day": 2.5}}', {"user": Limits(usd_day=2.5)}),
    "inspect": ("none", "none"),
    "av_scan": ("clamd", "clamd"),
    "av_timeout_s": ("4.5", 4.5),
    "cache_minimum_tokens": ('{"some-model": 7}', {"some-model": 7}),
    "bundles": ('{"docs": "bundles.docs"}', {"docs": BundleChoice(module="bundles.docs")}),
    "bundle_props": ('{"react": {"max_iterations": 4}}', {"react": {"max_iterations": 4}}),
    "assembly": ('{"ai": {}}', {"ai": {}}),
    "model_provider": ("bedrock", "bedrock"),
    "model_providers": (
        '{"mine": "https://llm.example.com/v1"}',
        {"mine": ModelServer(base_url="https://llm.example.com/v1")},
    ),
    "model_roles": ('{"decide": "some-model"}', {"decide": RoleChoice(model="some-model")}),
    "read_visible_context_fraction": ("0.5", 0.5),
    "exec_mode": ("local", "process"),
    "exec_strategy": ("combined", "combined"),
    "exec_packages": ("numpy, pandas", ("numpy", "pandas")),
    "descriptor_payload_scope": ("all", "all"),
    "workspace": ("git", "git"),
    "search_provider": ("brave", "brave"),
    "tracing": ("text", "text"),
    "approvals": ('{"mail.*": "always"}', {"mail.*": "always"}),
    "allowed_addresses": ("203.0.113.0/24", ("203.0.113.0/24",)),
    "fargate_subnets": ("subnet-1, subnet-2", ("subnet-1", "subnet-2")),
    "fargate_security_groups": ("sg-1", ("sg-1",)),
    "fargate_assign_public_ip": ("DISABLED", "DISABLED"),
}


EVERY = pytest.mark.parametrize(
    ("field", "row"), [pytest.param(*item, id=item[1].variable) for item in TABLE.items()]
)


@EVERY
def test_each_setting_is_read_from_its_variable(field, row):
    counted = isinstance(row.default, int)
    text, value = OTHER_VALUES.get(field, ("4711", 4711) if counted else ("something", "something"))
    assert value != row.default
    assert getattr(Settings.from_env({row.variable: text}), field) == value


@EVERY
def test_an_empty_variable_counts_as_absent(field, row):
    assert Settings.from_env({row.variable: ""}) == Settings.from_env({}) == Settings()


@EVERY
def test_a_default_keeps_its_own_bounds_and_survives_being_written(field, row):
    written = env(**{field: row.default})
    assert getattr(Settings.from_env(written), field) == row.default


def test_no_two_fields_share_a_variable():
    assert len({row.variable for row in TABLE.values()}) == len(TABLE)


@EVERY
def test_a_number_outside_its_bounds_is_refused_or_the_default(field, row):
    outside = [
        *([row.minimum - 1] if row.minimum is not None else ()),
        *([row.maximum + 1] if row.maximum is not None else ()),
    ]
    for number in outside:
        if row.or_default:
            assert getattr(Settings.from_env({row.variable: str(number)}), field) == row.default
            continue
        with pytest.raises(InputError) as caught:
            Settings.from_env({row.variable: str(number)})
        assert caught.value.reason == "bad_setting"
        assert str(caught.value) == f"{row.variable} is {number}, not {row.bounds}"


def test_bounds_are_inclusive_and_exclude_nan_and_inf():
    fraction = "AI_REACT_READ_VISIBLE_CONTEXT_FRACTION"
    assert Settings.from_env({fraction: "1"}).read_visible_context_fraction == 1
    assert Settings.from_env({"STEPLINE_USER_MESSAGES_PER_MINUTE": "0"}).user_messages_per_minute == 0
    for text in ("nan", "inf"):
        with pytest.raises(InputError, match=f"{fraction} is {text}, not from 0 to 1"):
            Settings.from_env({fraction: text})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("STEPLINE_USER_MESSAGES_PER_MINUTE", "-1"),
        ("STEPLINE_CACHE_TTL_S", "-1"),
        ("STEPLINE_TURN_DEADLINE_S", "0"),
        ("AI_REACT_READ_VISIBLE_CONTEXT_FRACTION", "1.5"),
        ("PY_CODE_EXEC_TIMEOUT", "0"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_with_its_bounds(variable, text):
    with pytest.raises(InputError, match=rf"{variable} is {text}, not (at least|from) \d"):
        Settings.from_env({variable: text})


@pytest.mark.parametrize("rounds", ["0", "-3"])
def test_a_turn_always_has_rounds(rounds):
    assert policy(Settings.from_env({"AI_REACT_MAX_ITERATIONS": rounds})).max_iterations == 15


def test_the_bundle_decides_before_the_assembly_and_both_before_the_variable():
    said = {
        "STEPLINE_BUNDLE_PROPS": '{"react": {"max_iterations": 4}}',
        "STEPLINE_ASSEMBLY": '{"ai": {"react": {"max_iterations": 5}}}',
        "AI_REACT_MAX_ITERATIONS": "6",
    }
    seen = []
    for variable in list(said):
        seen.append(policy(Settings.from_env(said)).max_iterations)
        del said[variable]
    assert [*seen, policy(Settings.from_env({})).max_iterations] == [4, 5, 6, 15]


@pytest.mark.parametrize(
    "text",
    [
        '{"default": "bundles.docs"}',
        '{"Docs": "bundles.docs"}',
        '{"": "bundles.docs"}',
        '{"../docs": "bundles.docs"}',
        '{"docs": 3}',
        '{"docs": {"module": "bundles.docs", "prop": {}}}',
        '["bundles.docs"]',
    ],
)
def test_a_further_bundle_has_a_unique_name_and_a_module(text):
    with pytest.raises(InputError) as caught:
        Settings.from_env({"STEPLINE_BUNDLES": text})
    assert caught.value.reason == "bad_setting"


def test_each_bundle_is_bound_by_its_own_properties():
    said = {
        "STEPLINE_BUNDLE_PROPS": '{"react": {"max_iterations": 4}}',
        "STEPLINE_BUNDLES": '{"docs": {"module": "bundles.docs", "props": {"react": {"max_iterations": 7}}}, "bare": "bundles.docs"}',
    }
    ports = in_memory(Settings.from_env(said)).ports
    rounds = [ports.of(name).policy.max_iterations for name in ("", "docs", "bare", "gone")]
    assert rounds == [4, 7, 15, 4]


def test_limits_of_a_round_reach_the_agent_and_its_instructions():
    said = {
        "AI_REACT_AGENT_MULTI_ACTION": "on",
        "STEPLINE_MAX_ACTIONS_PER_ROUND": "3",
        "STEPLINE_PROTOCOL": "tolerant",
    }
    agent = in_memory(Settings.from_env(said)).agent
    assert (agent.fanout, agent.strict) == (FanoutRule(mode="safe_fanout", max_actions=3), False)
    assert "up to 3 decisions" in agent.system
    said["STEPLINE_ASSEMBLY"] = '{"ai": {"react": {"react_agent_multiaction": "off"}}}'
    assert in_memory(Settings.from_env(said)).agent.fanout.limit == 1
    plain = in_memory(Settings.from_env({})).agent
    assert (plain.fanout.mode, plain.strict) == ("off", True)


def test_accounts_have_the_limits_that_the_stage_sets_and_users_their_messages():
    said = {
        "STEPLINE_LIMITS": '{"user": {"turns_at_once": 3}, "tenant": {"usd_month": 100, "stopped": "maintenance"}}',
        "STEPLINE_USER_MESSAGES_PER_MINUTE": "9",
        "STEPLINE_BUNDLES": '{"docs": "bundles.docs"}',
    }
    expected = ScopeLimits(
        user=Limits(turns_at_once=3, messages_per_minute=9),
        tenant=Limits(usd_month=100, stopped="maintenance"),
    )
    ports = in_memory(Settings.from_env(said)).ports
    assert [ports.of(name).policy.limits for name in ("", "docs")] == [expected, expected]
    said["STEPLINE_LIMITS"] = '{"user": {"messages_per_minute": 2}}'
    assert policy(Settings.from_env(said)).limits == ScopeLimits(user=Limits(messages_per_minute=2))


@pytest.mark.parametrize(
    "text",
    [
        '{"users": {"usd_day": 5}}',
        '{"tenant/acme": {"usd_day": 5}}',
        '{"user": {"usd_day": -1}}',
        '{"user": {"usd_day": "5"}}',
        '{"user": {"usd_day": NaN}}',
        '{"user": {"usd_day": Infinity}}',
        '{"user": {"dollars": 5}}',
        '{"user": 5}',
        "[]",
    ],
)
def test_limits_that_are_none_are_refused(text):
    with pytest.raises(InputError) as caught:
        Settings.from_env({"STEPLINE_LIMITS": text})
    assert caught.value.reason == "bad_setting"


def rules(**said):
    return policy(Settings.from_env(said)).context


def test_the_deployment_sets_the_contexts_limits():
    assert rules() == ContextRules()
    assert rules(
        AI_REACT_CONTEXT_MAX_TOKENS="60000",
        STEPLINE_CONTEXT_WINDOW_TOKENS="100000",
        STEPLINE_CACHE_TTL_S="0",
        STEPLINE_KEEP_RECENT_TURNS="9",
        STEPLINE_KEEP_INTACT_TURNS="3",
        STEPLINE_CACHE_MINIMUM_TOKENS='{"claude": 100}',
    ) == ContextRules(
        max_tokens=60_000,
        window_tokens=100_000,
        ttl_s=0,
        keep_turns=9,
        intact_turns=3,
        cache_minimum_tokens=100,
    )


@pytest.mark.parametrize("count", ["0", "-1"])
def test_a_count_of_nothing_is_the_default(count):
    names = ("STEPLINE_CONTEXT_WINDOW_TOKENS", "STEPLINE_KEEP_RECENT_TURNS", "STEPLINE_KEEP_INTACT_TURNS")
    assert rules(AI_REACT_CONTEXT_MAX_TOKENS=count, **dict.fromkeys(names, count)) == ContextRules()


def test_the_deployment_sets_the_credits_of_steers_and_events():
    def limits(**said):
        found = policy(Settings.from_env(said))
        return found.finalize_rounds, found.finalize_max_tokens, found.event_credit

    names = (
        "REACT_STEER_FINALIZE_ROUNDS",
        "REACT_STEER_FINALIZE_MAX_TOKENS",
        "AI_REACT_REACTIVE_EVENT_CREDIT",
    )
    assert limits() == (2, 3000, 1)
    assert limits(**dict(zip(names, ("1", "900", "3"), strict=True))) == (1, 900, 3)
    assert limits(**dict.fromkeys(names, "0")) == (2, 3000, 0)
    assert limits(**dict.fromkeys(names, "-1")) == (2, 3000, 0)


def test_printed_settings_show_no_secret():
    said = {"ANTHROPIC_API_KEY": "sk-s3cret", "STEPLINE_REDIS_URL": "rediss://:s3cret@cache"}
    shown = repr(Settings.from_env({**said, "STEPLINE_TABLE": "the-table"}))
    assert "s3cret" not in shown
    assert "table='the-table'" in shown
    assert "redis_url=…" in shown
    assert "redis_url=''" in repr(Settings.from_env({}))


def test_the_bundle_bounds_a_request_before_the_assembly_and_both_before_the_variable():
    said = {
        "STEPLINE_BUNDLE_PROPS": '{"react": {"context": {"max_tokens": 40000}}}',
        "STEPLINE_ASSEMBLY": '{"ai": {"react": {"context": {"max_tokens": 50000}}}}',
        "AI_REACT_CONTEXT_MAX_TOKENS": "60000",
    }
    seen = []
    for variable in list(said):
        seen.append(rules(**said).max_tokens)
        del said[variable]
    assert [*seen, rules().max_tokens] == [40_000, 50_000, 60_000, 80_000]


def test_the_cached_prefix_depends_on_the_model_that_decides():
    haiku = '{"*": "claude-haiku-4-5"}'
    assert rules(STEPLINE_MODEL_ROLES=haiku).cache_minimum_tokens == 4096
    decides = f'{{"{DECISION_ROLE}": "claude-opus-4-7"}}'
    assert rules(STEPLINE_MODEL_ROLES=decides).cache_minimum_tokens == 2048


@pytest.mark.parametrize(("said", "ttl_s"), [("300", 3600), ("7200", 7200), ("0", 0)])
def test_a_cache_that_is_kept_for_an_hour_is_not_given_up_before(said, ttl_s):
    hour = '{"*": {"cache_ttl": "1h"}}'
    assert rules(STEPLINE_CACHE_TTL_S=said, STEPLINE_MODEL_ROLES=hour).ttl_s == ttl_s
    assert rules(STEPLINE_CACHE_TTL_S=said).ttl_s == float(said)


def test_a_read_never_takes_more_than_its_share_of_a_request():
    assert read_caps(Settings.from_env({})).max_tokens == 12_000
    assert read_caps(Settings.from_env({"AI_REACT_CONTEXT_MAX_TOKENS": "40000"})).max_tokens == 6_000


def test_a_task_gets_the_request_limit_of_the_bundle():
    said = Settings.from_env({"STEPLINE_BUNDLE_PROPS": '{"react": {"context": {"max_tokens": 40000}}}'})
    assert read_caps(Settings.from_env(task_settings(said))) == read_caps(said)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("AI_REACT_MAX_ITERATIONS", "many"),
        ("AI_REACT_READ_VISIBLE_CONTEXT_FRACTION", "half"),
        ("AI_REACT_AGENT_MULTI_ACTION", "sometimes"),
        ("STEPLINE_MAX_ACTIONS_PER_ROUND", "few"),
        ("STEPLINE_PROTOCOL", "lax"),
        ("AI_REACT_AGENT_VERSION", "v1"),
        ("AI_REACT_WORKSPACE", "svn"),
        ("AI_REACT_CONTEXT_MAX_TOKENS", "plenty"),
        ("STEPLINE_CONTEXT_WINDOW_TOKENS", "wide"),
        ("STEPLINE_CACHE_TTL_S", "5m"),
        ("STEPLINE_KEEP_RECENT_TURNS", "all"),
        ("STEPLINE_KEEP_INTACT_TURNS", "some"),
        ("STEPLINE_CACHE_MINIMUM_TOKENS", '{"some-model": "1k"}'),
        ("STEPLINE_CACHE_MINIMUM_TOKENS", "1024"),
        ("STEPLINE_MODEL_PROVIDER", "parrot"),
        ("STEPLINE_MODEL_ROLES", "{"),
        ("STEPLINE_MODEL_ROLES", "[]"),
        ("STEPLINE_BUNDLE_PROPS", "[]"),
        ("STEPLINE_ASSEMBLY", "no"),
        ("STEPLINE_MODEL_ROLES", '{"decide": 1}'),
        ("STEPLINE_MODEL_ROLES", '{"decide": {"modle": "m"}}'),
        ("STEPLINE_MODEL_ROLES", '{"decide": {"thinking": "a lot"}}'),
        ("STEPLINE_MODEL_ROLES", '{"decide": {"thinking": 1000}}'),
        ("STEPLINE_MODEL_ROLES", '{"decide": {"effort": "huge"}}'),
        ("STEPLINE_MODEL_ROLES", '{"decide": {"max_tokens": 0}}'),
        ("STEPLINE_MODEL_ROLES", '{"decide": {"cache_ttl": "2h"}}'),
        ("EXEC_RUNTIME_MODE", "cloud"),
        ("PY_CODE_EXEC_TIMEOUT", "long"),
        ("PY_CODE_EXEC_CONTAINER_STRATEGY", "one"),
        ("EXEC_DESCRIPTOR_PAYLOAD_SCOPE", "some"),
    ],
)
def test_a_bad_value_is_refused_by_name(variable, text):
    with pytest.raises(InputError) as caught:
        Settings.from_env({variable: text})
    assert caught.value.reason == "bad_setting"
    assert variable in str(caught.value)


def test_a_function_reads_the_environment_of_its_stack():
    fields = {
        "table": "t",
        "allowed_origins": ("https://a", "https://b"),
        "model_roles": {"decide": RoleChoice(model="m", thinking="disabled", max_tokens=9)},
        "assembly": {"ai": {}},
    }
    read = Settings.from_env(env(**fields, max_iterations=3))
    assert {name: getattr(read, name) for name in fields} == fields
    assert read.max_iterations == 3


def test_a_misspelt_field_never_reaches_a_function():
    with pytest.raises(TypeError, match="tabel"):
        env(tabel="t")
