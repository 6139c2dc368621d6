import json

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Annotations, Match

from stepline.model.tenancy.limits import Limits
from stepline.ports.model import RoleChoice
from stepline.settings import BundleChoice, Settings, env
from stepline_cdk.choice.read import BadChoiceError
from stepline_cdk.choice.sources import read_stage
from stepline_cdk.ingress import warn_unknown
from stepline_cdk.stage import LOCAL_TURNS, Stage


def read(**context):
    return read_stage(context).stage


def test_the_default_stage_is_no_local_one():
    assert read() == Stage(name="dev", exec_mode="fargate", exec_image="codebuild")


def test_a_stage_has_the_choices_of_its_context():
    stage = read(
        stage="test",
        allowed_origins="https://a.example,https://b.example",
        model_roles='{"decide": "m"}',
        burst="7",
        search_corpus="/var/task/lambdas/library",
    )
    assert stage.allowed_origins == ("https://a.example", "https://b.example")
    assert stage.model_roles == {"decide": RoleChoice(model="m")}
    assert stage.burst == 7
    assert stage.search_corpus == "/var/task/lambdas/library"


def test_a_stage_says_how_many_actions_a_round_may_take_and_how_strictly_it_is_read():
    stage = read(multi_action="safe_fanout", max_actions_per_round="4", protocol="tolerant")
    assert (stage.multi_action, stage.max_actions_per_round, stage.protocol) == ("safe_fanout", 4, "tolerant")
    with pytest.raises(ValueError, match="multi_action"):
        read(multi_action="sometimes")
    with pytest.raises(ValueError, match="protocol"):
        read(protocol="lax")


def test_a_stage_says_which_agent_answers_and_how_long_its_context_may_be():
    stage = read(
        agent_version="v2",
        context_layout="journal",
        context_max_tokens="60000",
        context_window_tokens="100000",
        cache_ttl_s="0",
        keep_recent_turns="9",
        keep_intact_turns="3",
        cache_minimum_tokens='{"some-model": 7}',
    )
    assert (stage.agent_version, stage.context_max_tokens, stage.context_window_tokens) == (
        "v2",
        60_000,
        100_000,
    )
    assert stage.context_layout == "journal"
    assert (stage.cache_ttl_s, stage.keep_recent_turns, stage.keep_intact_turns) == (0, 9, 3)
    assert stage.cache_minimum_tokens == {"some-model": 7}
    with pytest.raises(ValueError, match="agent_version"):
        read(agent_version="v1")
    with pytest.raises(ValueError, match="context_layout"):
        read(context_layout="digest")


@pytest.mark.parametrize(
    ("name", "given", "who"),
    [
        ("local", {"endpoint": "http://localhost"}, "owner"),
        ("dev", {}, "owner"),
        ("prod", {}, "admin"),
        ("prod", {"inspect": "none"}, "none"),
    ],
)
def test_owners_inspect_their_conversations_where_it_is_developed_or_the_deployment_says_so(name, given, who):
    assert read(stage=name, **given).inspect == who


def test_a_stage_names_further_bundles_each_with_its_properties():
    stage = read(bundles='{"docs": "bundles.docs", "shop": {"module": "shop", "props": {"a": 1}}}')
    assert stage.bundles == {
        "docs": BundleChoice(module="bundles.docs"),
        "shop": BundleChoice(module="shop", props={"a": 1}),
    }
    assert stage.modules == ("bundles.default", "bundles.docs", "shop")
    with pytest.raises(BadChoiceError, match=r"^bundles: got .*'default'"):
        read(bundles='{"default": "bundles.docs"}')


def test_programs_run_in_tasks_unless_they_are_left_out():
    for image in ({}, {"exec_image": ""}, {"exec_image": "codebuild"}):
        assert (read(**image).exec_image, read(**image).has_tasks) == ("codebuild", True)
    assert read(exec_image="programs:1").has_tasks
    assert not read(stage="prod", exec_image="none").has_tasks
    local = {"stage": "local", "endpoint": "http://127.0.0.1:4566"}
    assert read(**local, exec_mode="docker").executes
    assert read(**local, exec_mode="fargate", exec_image="programs:1").has_tasks


def test_tasks_are_placed_by_ids_of_a_network_and_without_a_public_address():
    placed = read(
        exec_vpc="vpc-0a1b2c3d",
        exec_subnets="subnet-0a1b2c3d,subnet-1a1b2c3d",
        exec_security_groups="sg-0a1b2c3d",
    )
    assert (placed.exec_vpc, placed.exec_subnets, placed.exec_security_groups) == (
        "vpc-0a1b2c3d",
        ("subnet-0a1b2c3d", "subnet-1a1b2c3d"),
        ("sg-0a1b2c3d",),
    )
    assert not placed.exec_public_ip
    assert read().exec_public_ip
    assert read(exec_vpc="vpc-0a1b2c3d", exec_subnets="subnet-0a1b2c3d", exec_public_ip="true").exec_public_ip


@pytest.mark.parametrize(
    "choices",
    [
        {"exec_vpc": "vpc-0a1b2c3d"},
        {"exec_subnets": "subnet-0a1b2c3d"},
        {"exec_vpc": "my network", "exec_subnets": "subnet-0a1b2c3d"},
        {"exec_vpc": "vpc-0a1b2c3d", "exec_subnets": "eu-west-1a"},
        {"exec_security_groups": "sg-0a1b2c3d"},
        {"exec_zones": "us-west-1a,us-west-1b"},
        {"exec_zones": "usw1-az1"},
        {"exec_zones": "usw1-az1,usw1-az3", "exec_vpc": "vpc-0a1b2c3d", "exec_subnets": "subnet-0a1b2c3d"},
    ],
)
def test_a_network_that_cannot_be_is_refused(choices):
    with pytest.raises(ValueError, match="exec_"):
        read(**choices)


def test_alarms_are_on_in_prod_unless_refused():
    assert read(stage="prod").alarms
    assert not read(stage="prod", alarms="false").alarms
    assert not read(stage="dev").alarms


def test_snapstart_is_on_in_prod_unless_refused():
    assert read(stage="prod").snap_start
    assert not read(stage="prod", snap_start="false").snap_start
    assert not read(stage="dev").snap_start


@pytest.mark.parametrize("name", ["", "Prod", "1st", "a" * 17, "a_b"])
def test_a_name_that_fits_no_resource_is_refused(name):
    with pytest.raises(ValueError, match="stage"):
        Stage(name=name)


@pytest.mark.parametrize(
    "origin",
    ["*", "null", "chat.example", "https://chat.example/", "https://Chat.example", "https://a b", "ftp://a"],
)
def test_an_origin_that_no_browser_writes_is_refused(origin):
    with pytest.raises(ValueError, match="allowed_origins"):
        Stage(allowed_origins=("https://chat.example", origin), oidc_issuer="https://login.example")


def test_a_page_without_tls_needs_an_external_issuer_or_this_machine():
    pages = ("http://localhost:3000", "https://[::1]:8443")
    assert Stage(allowed_origins=pages).allowed_origins == pages
    plain = ("http://10.0.0.7:3000",)
    assert Stage(allowed_origins=plain, oidc_issuer="https://login.example").allowed_origins == plain
    with pytest.raises(ValueError, match="https"):
        Stage(allowed_origins=plain)


def test_an_issuer_is_reached_over_https():
    with pytest.raises(ValueError, match="https"):
        Stage(oidc_issuer="http://login.example")


def test_a_reserved_word_of_cognito_is_refused_in_an_address():
    with pytest.raises(ValueError, match=r"^sign_in_prefix: got 'aws-test', takes .*Cognito"):
        Stage(name="aws-test")
    for given in ({"sign_in_prefix": "chat"}, {"oidc_issuer": "https://login.example"}):
        assert Stage(name="aws-test", **given).name == "aws-test"
    with pytest.raises(ValueError, match=r"^sign_in_prefix: got 'my-cognito'"):
        Stage(sign_in_prefix="my-cognito")


CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d-0000-1111-2222-333344445555"


def test_a_custom_domain_needs_a_certificate_that_cloudfront_accepts():
    named = read(page_domain="chat.example.com", page_certificate_arn=CERTIFICATE)
    assert (named.page_domain, named.page_certificate_arn) == ("chat.example.com", CERTIFICATE)


@pytest.mark.parametrize(
    "choices",
    [
        {"page_domain": "chat.example.com"},
        {"page_certificate_arn": CERTIFICATE},
        {"page_domain": "https://chat.example.com", "page_certificate_arn": CERTIFICATE},
        {"page_domain": "*.example.com", "page_certificate_arn": CERTIFICATE},
        {
            "page_domain": "chat.example.com",
            "page_certificate_arn": CERTIFICATE.replace("us-east-1", "eu-west-1"),
        },
    ],
)
def test_a_domain_that_cloudfront_would_refuse_is_refused_before_it_is_deployed(choices):
    with pytest.raises(ValueError, match="page_"):
        read(**choices)


def test_further_origins_of_an_issuer_are_written_as_browsers_write_them():
    assert read(oidc_origins="https://a.example,https://b.example").oidc_origins == (
        "https://a.example",
        "https://b.example",
    )
    with pytest.raises(ValueError, match=r"^oidc_origins"):
        read(oidc_origins="https://a.example/token")


def test_only_the_local_stage_has_an_endpoint():
    with pytest.raises(ValueError, match="stepline up"):
        Stage(name="local")
    with pytest.raises(ValueError, match="stepline up"):
        Stage(name="prod", endpoint="http://127.0.0.1:4566")


def test_programs_run_beside_the_functions_on_the_local_stage_only():
    assert Stage(name="local", endpoint="http://127.0.0.1:4566", exec_mode="docker").executes
    assert not Stage(name="prod").executes
    for name, endpoint, mode in (
        ("prod", "", "process"),
        ("dev", "", "docker"),
        ("local", "http://127.0.0.1:4566", "vm"),
    ):
        with pytest.raises(ValueError, match=r"^exec_mode: got"):
            Stage(name=name, endpoint=endpoint, exec_mode=mode)


def test_a_url_where_the_arn_of_its_secret_belongs_is_refused_and_not_repeated():
    with pytest.raises(ValueError, match="ARN") as refused:
        Stage(redis_secret_arn="rediss://:s3cret@cache.example")
    assert "s3cret" not in str(refused.value)


def test_a_scanner_without_a_host_is_refused_before_it_is_deployed():
    assert read(av="clamd", clamav_host="scan.example").av == "clamd"
    with pytest.raises(ValueError, match=r"^clamav_host"):
        read(av="clamd")


def test_a_stage_that_keeps_its_data_scans_uploads_unless_it_chose_otherwise():
    assert (read(stage="prod").av, read(stage="dev").av) == ("guardduty", "none")
    assert read(stage="prod", av="none").av == "none"


def test_stage_local_cannot_be_scanned_by_guardduty():
    with pytest.raises(ValueError, match=r"^av: got"):
        Stage(name="local", endpoint="http://127.0.0.1:4566", av="guardduty")


def test_a_search_engine_that_cannot_be_asked_is_refused_before_it_is_deployed():
    assert read(search_provider="searxng", search_url="https://search.example").search_url
    for given in ({"search_provider": "searxng"}, {"search_provider": "altavista"}):
        with pytest.raises(ValueError, match=r"^search_"):
            read(**given)
    with pytest.raises(ValueError, match="ARN") as refused:
        Stage(search_secret_arn="BSA-s3cret")
    assert "s3cret" not in str(refused.value)


def test_memory_is_kept_in_vectors_if_a_stage_says_so_but_not_on_the_emulator():
    assert read().memory == "embedded"
    assert read(memory="s3_vectors").memory == "s3_vectors"
    with pytest.raises(ValueError, match="memory"):
        read(memory="opensearch")
    with pytest.raises(ValueError, match=r"^memory: got 's3_vectors' on stage local"):
        read(stage="local", endpoint="http://127.0.0.1:4566", memory="s3_vectors")


def test_logs_are_kept_for_a_period_that_cloudwatch_has():
    assert read(log_retention_days="7").log_retention_days == 7
    with pytest.raises(ValueError, match="log_retention_days"):
        read(log_retention_days="8")


def test_a_stage_sets_limits_and_a_word_that_is_none_is_refused_before_it_is_deployed():
    stage = read(limits='{"user": {"turns_at_once": 3, "usd_day": 2.5}}')
    assert stage.limits == {"user": Limits(turns_at_once=3, usd_day=2.5)}
    assert Settings.from_env(env(limits=stage.limits)).limits == stage.limits
    for given in ('{"everybody": {}}', '{"user": {"usd_a_day": 1}}', '{"user": {"usd_day": -1}}'):
        with pytest.raises(BadChoiceError, match=r"^limits: got .*, which .*; takes an object, or its JSON$"):
            read(limits=given)


def test_a_stage_overrides_prices_of_the_release():
    given = (
        '{"models": [{"model": "m", "plain": 1, "read": 0.1, "output": 5}], "aws": {"transition": 0.00003}}'
    )
    assert Settings.from_env(env(prices=read(prices=given).prices)).prices == json.loads(given)
    with pytest.raises(BadChoiceError, match=r"^prices: got"):
        read(prices='{"azure": {}}')


def test_a_stage_names_the_principals_that_may_act_for_its_users():
    account, role = "arn:aws:iam::111122223333:root", "arn:aws-cn:iam::111122223333:role/team/billing"
    assert read().event_source_principals == ()
    assert read(event_source_principals=f"{account},{role}").event_source_principals == (account, role)


@pytest.mark.parametrize(
    "arn",
    [
        "*",
        "billing",
        "arn:aws:iam::111122223333:*",
        "arn:aws:iam::111122223333:role/*",
        "arn:aws:iam::*:root",
        "arn:aws:iam::111122223333:group/billing",
        "arn:aws:sts::111122223333:assumed-role/billing/s",
    ],
)
def test_wildcard_principals_may_not_act_for_users(arn):
    with pytest.raises(ValueError, match="event_source_principals"):
        read(event_source_principals=arn)


@pytest.mark.parametrize(
    ("given", "turns"),
    [
        ({}, 6),
        ({"concurrency": "1000"}, 700),
        ({"concurrency": "1000", "open_turns": "50"}, 50),
        ({"concurrency": "1000", "stream_readers": "20"}, 686),
        ({"stage": "local", "endpoint": "http://localhost"}, LOCAL_TURNS),
        ({"stage": "local", "endpoint": "http://localhost", "open_turns": "99"}, 99),
    ],
)
def test_the_turns_at_once_follow_from_the_account_unless_fewer_are_chosen(given, turns):
    assert read(**given).most_turns == turns


def test_more_waiting_readers_than_can_be_reserved_are_refused():
    assert read(concurrency="120", stream_readers="20").division.reserved == {"stream": 20}
    with pytest.raises(ValueError, match=r"stream_readers: got 21, takes at most 20 with concurrency=120"):
        read(concurrency="120", stream_readers="21")
    with pytest.raises(ValueError, match=r"takes at most 0 with concurrency=unknown"):
        read(stream_readers="1")


def test_more_turns_than_the_account_has_room_for_are_refused():
    with pytest.raises(ValueError, match=r"open_turns: got 701, takes at most 700, .*concurrency=1000"):
        read(concurrency="1000", open_turns="701")
    with pytest.raises(ValueError, match="concurrency=unknown"):
        read(open_turns="7")


@pytest.mark.parametrize(
    ("given", "throttle"),
    [
        ({"requests_per_s": "7"}, (7, 14)),
        ({"requests_per_s": "7", "burst": "9"}, (7, 9)),
        ({"burst": "500"}, (1313, 500)),
        ({}, (1313, 2626)),
    ],
)
def test_a_throttle_that_is_chosen_counts_before_the_planned_one(given, throttle):
    planned = read(concurrency="1000", **given).socket_throttle
    assert (planned.requests_per_s, planned.burst) == throttle


@pytest.mark.parametrize(("concurrency", "warned"), [(0, True), (10, False)])
def test_a_stage_with_an_unknown_account_raises_a_warning(tmp_path, concurrency, warned):
    app = cdk.App(outdir=str(tmp_path))
    stage = Stage(name="dev", oidc_issuer="https://login.example", concurrency=concurrency)
    stack = cdk.Stack(app, "stack")
    warn_unknown(stack, stage)
    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("-c concurrency=N"))
    assert bool(found) is warned
