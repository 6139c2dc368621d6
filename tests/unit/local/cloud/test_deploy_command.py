"""`stepline deploy`: the order of its steps, its refusals, and its saved state. The boundary is the child process."""

import json
import tomllib
from dataclasses import replace

import pytest

from stepline.errors import AuthError, DependencyError
from stepline.local.check import failed, warned
from stepline.local.cloud.deploy import UNANSWERED, choose, deploy_stage, find_deployment, synthesize
from stepline.local.cloud.deployment import Deployment, load_deployment, save_deployment
from tests.unit.local.cloud.recorded_programs import ACCOUNT_ID, REGION, bootstrap, order, refused

URL = {"WebSocketUrl": "wss://far/live"}
MODEL = {"model_provider": "bedrock", "model_roles": '{"*": "arn:aws:bedrock:::x"}'}


def fail_with(error):
    def try_turn(_url, _token):
        raise error

    return try_turn


def written(context, stage="dev"):
    """The choices in the stage's file of the project."""
    return tomllib.loads((context.project / f"stages/{stage}.toml").read_text())


def with_turn(context, try_turn):
    return replace(context, try_turn=try_turn)


@pytest.mark.usefixtures("bootstrapped")
def test_a_stage_is_checked_shown_confirmed_deployed_and_saved(context, programs, prompts):
    programs.outputs["stepline-dev-loop"] = URL
    deployment, code = deploy_stage(order(choices={"oidc_issuer": "https://login.example"}), context)
    assert code == 0
    assert programs.verbs[:2] == ["choices", "synth"]
    assert programs.verbs[-1] == "deploy"
    assert prompts.questions == [f"deploy stage dev to account {ACCOUNT_ID}, {REGION}?"]
    assert deployment == load_deployment(context.home, "dev")
    assert deployment.outputs == {"TableName": "t", **URL}
    assert deployment.deployed_at


@pytest.mark.parametrize(
    ("region", "choices", "zones"),
    [
        ("us-west-1", {}, "exec_zones=usw1-az1,usw1-az3"),
        ("us-west-1", {"exec_zones": "a1-az1,a1-az2"}, "exec_zones=a1-az1,a1-az2"),
        ("us-west-1", {"exec_vpc": "vpc-0a1b2c3d", "exec_subnets": "subnet-0a1b2c3d"}, ""),
        ("eu-central-1", {}, ""),
    ],
)
def test_tasks_are_placed_in_zones_that_have_fargate_and_the_choice_is_not_remembered(
    context, programs, region, choices, zones
):
    asked = order(choices=choices, region=region)
    account, deployment = find_deployment(asked, context)
    deployment, chosen = choose(asked, deployment, context)
    synthesize(asked, deployment, chosen, account, context)
    assert zones in programs.said("synth")
    assert bool(zones) is ("exec_zones=" in programs.said("synth"))
    assert ("derived=exec_zones" in programs.said("synth")) is (bool(zones) and not choices)


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.parametrize(
    ("choices", "said"),
    [({}, "AWS builds their image"), ({"exec_image": "none"}, "programs: none"), ({"exec_image": "a:1"}, "")],
)
def test_a_deployment_says_whether_it_runs_programs(context, prompts, choices, said):
    deploy_stage(order(choices=choices, smoke=False), context)
    assert said in prompts.text
    assert ("programs: " in prompts.text) is bool(said)


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.parametrize(
    ("choices", "warned"),
    [
        ({}, False),
        ({"alarms": "true"}, True),
        ({"alarms": "true", "alarm_topic_arn": "arn:aws:sns:eu-central-1:111122223333:calls"}, False),
    ],
)
def test_a_deployment_warns_about_alarms_without_a_topic(context, prompts, choices, warned):
    deploy_stage(order(choices=choices, smoke=False), context)
    assert ("alarms of the stage have no topic" in prompts.text) is warned


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.parametrize(
    ("choices", "warned"),
    [({"keep_data": "true", "av": "none"}, True), ({"keep_data": "true"}, False), ({"av": "none"}, False)],
)
def test_a_deployment_that_keeps_its_data_warns_about_uploads_that_are_not_scanned(
    context, prompts, choices, warned
):
    deploy_stage(order(choices=choices, smoke=False), context)
    assert ("uploads are not scanned for malware" in prompts.text) is warned


@pytest.mark.usefixtures("bootstrapped")
def test_the_shown_templates_are_deployed(context, programs, prompts):
    deploy_stage(order(choices={"oidc_issuer": "https://login.example"}, smoke=False), context)
    folder = programs.said("synth").split("--output ")[1].split()[0]
    assert f"--app {folder} " in programs.said("deploy")
    assert "--context oidc_issuer=https://login.example " in programs.said("synth")
    assert "--context stage=dev" in programs.said("synth")
    assert f"--context stages_folder={context.project / 'stages'} " in programs.said("synth")
    shown = prompts.text
    assert shown.index("stepline-dev-state: 2 resources; kept by destroy") < shown.index(
        "stepline-dev-loop: 1 resource"
    )
    assert "AWS::DynamoDB::GlobalTable" in shown


@pytest.mark.usefixtures("bootstrapped")
def test_the_index_of_the_bundles_documents_is_built_before_it_is_deployed(
    context, prompts, tmp_path, monkeypatch
):
    # In a separate checkout: an index in ours would change, under other tests, the inputs of a deployment.
    bundle = tmp_path / "bundles/docs"
    bundle.mkdir(parents=True)
    (bundle / "knowledge.yaml").write_text("repo: ../..\ndocs_root: guide\n")
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide/lamp.md").write_text("# Lamp\n")
    monkeypatch.setattr("stepline.local.cloud.deploy.REPOSITORY", tmp_path)
    deploy_stage(order(choices={"bundle": "bundles.docs"}, smoke=False), context)
    shown = prompts.text
    assert shown.index("building the index of bundles/docs") < shown.index("writing the templates")
    assert (bundle / ".knowledge/current").is_file()


@pytest.mark.usefixtures("bootstrapped")
def test_the_cost_is_shown_before_the_question(context, prompts):
    prompts.answers = [False]
    refused(deploy_stage, order(), context)
    assert prompts.lines[-1] == "    1.60  USD a month while idle"


@pytest.mark.usefixtures("bootstrapped")
def test_an_unknown_price_does_not_stop_a_deployment(context, programs, prompts):
    programs.failing.add("cost")
    deploy_stage(order(smoke=False), context)
    assert "the cost at rest is not known: no" in prompts.text
    assert programs.verbs[-1] == "deploy"


@pytest.mark.usefixtures("bootstrapped")
def test_choices_need_no_repetition_and_can_be_forgotten(context, programs):
    deploy_stage(
        order(choices={"oidc_issuer": "https://login.example", "snap_start": "false"}, smoke=False), context
    )
    assert written(context) == {"oidc_issuer": "https://login.example", "snap_start": False}
    deploy_stage(order(smoke=False), context)
    assert "oidc_issuer" not in programs.said("synth")
    assert written(context) == {"oidc_issuer": "https://login.example", "snap_start": False}
    deploy_stage(order(choices={"oidc_issuer": ""}, smoke=False), context)
    assert "--context oidc_issuer= " in programs.said("synth")
    assert written(context) == {"snap_start": False}


@pytest.mark.usefixtures("bootstrapped")
def test_an_image_that_was_not_built_is_no_failed_deployment_and_is_reported(context, programs, prompts):
    programs.outputs["stepline-dev-exec"] = {
        "ImageProject": "stepline-dev-exec-image",
        "ImageResult": "built",
    }
    assert deploy_stage(order(smoke=False), context)[1] == 0
    assert "no programs" not in prompts.text
    programs.outputs["stepline-dev-exec"]["ImageResult"] = "the build was not started: no quota"
    assert deploy_stage(order(smoke=False), context)[1] == 0
    assert "no programs: the build was not started: no quota" in prompts.text
    assert "aws codebuild start-build --project-name stepline-dev-exec-image" in prompts.text


@pytest.mark.usefixtures("bootstrapped")
def test_a_failed_deployment_names_the_next_command_and_keeps_the_choices(context, programs):
    programs.failing.add("deploy")
    error = refused(deploy_stage, order(choices={"oidc_issuer": "https://login.example"}), context)
    assert error.reason == "cloud_deploy"
    assert "stepline deploy --stage dev" in str(error)
    known = load_deployment(context.home, "dev")
    assert written(context) == {"oidc_issuer": "https://login.example"}
    assert not known.deployed_at


@pytest.mark.usefixtures("bootstrapped")
def test_a_misspelt_choice_is_refused_before_anything_is_done(context, programs):
    error = refused(deploy_stage, order(choices={"oidc_isuer": "https://login.example"}), context)
    assert error.reason == "bad_choice"
    assert str(error).startswith("oidc_isuer: a stage has no such choice, did you mean oidc_issuer")
    assert programs.verbs == ["choices"]


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.usefixtures("bootstrapped")
def test_no_is_an_answer(context, programs, prompts):
    prompts.answers = [False]
    assert refused(deploy_stage, order(), context).reason == "cloud_deploy"
    assert "deploy" not in programs.verbs
    assert load_deployment(context.home, "dev") is None
    assert not (context.project / "stages").exists()


def test_an_empty_account_is_bootstrapped_after_asking(context, programs, prompts, account):
    programs.on_bootstrap = lambda: bootstrap(account)
    deploy_stage(order(smoke=False), context)
    assert programs.verbs[:2] == ["choices", "bootstrap"]
    assert f"aws://{ACCOUNT_ID}/{REGION}" in programs.said("bootstrap")
    assert "cdk bootstrap" in prompts.questions[0]


def test_an_account_that_may_not_be_bootstrapped_stops_the_deployment(context, programs, prompts):
    prompts.answers = [False]
    error = refused(deploy_stage, order(), context)
    assert f"cdk bootstrap aws://{ACCOUNT_ID}/{REGION}" in str(error)
    assert programs.verbs == ["choices"]


def test_a_bootstrap_that_fails_stops_the_deployment(context, programs):
    programs.failing.add("bootstrap")
    assert refused(deploy_stage, order(), context).reason == "cloud_deploy"
    assert programs.verbs == ["choices", "bootstrap"]


@pytest.mark.usefixtures("bootstrapped")
def test_an_image_of_our_own_needs_docker(context, programs):
    programs.failing.add("version")
    error = refused(deploy_stage, order(choices={"exec_image": "asset"}), context)
    assert "-c exec_image=codebuild" in str(error)
    assert programs.verbs == ["choices", "version"]


@pytest.mark.usefixtures("bootstrapped")
def test_an_image_that_aws_builds_needs_none(context, programs):
    programs.failing.add("version")
    deploy_stage(order(choices={"exec_image": "codebuild"}, smoke=False), context)
    assert programs.verbs[-1] == "deploy"


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.parametrize("field", ["account", "region"])
def test_a_stage_stays_where_it_is(context, programs, field):
    elsewhere = {"account": ACCOUNT_ID, "region": REGION, field: "elsewhere"}
    save_deployment(context.home, Deployment(stage="dev", **elsewhere))
    fields = {"region": REGION} if field == "region" else {}
    error = refused(deploy_stage, order(**fields), context)
    assert error.reason == "cloud_account"
    assert "--profile" in str(error)
    assert programs.verbs == []


@pytest.mark.usefixtures("bootstrapped")
def test_profile_and_region_are_remembered_and_reach_the_children(context, programs):
    save_deployment(context.home, Deployment(stage="dev", account=ACCOUNT_ID, region=REGION, profile="work"))
    deploy_stage(order(smoke=False), context)
    assert programs.said("deploy").count("--profile work") == 1
    assert programs.environments[-1]["AWS_PROFILE"] == "work"
    assert programs.environments[-1]["AWS_REGION"] == REGION


@pytest.mark.usefixtures("bootstrapped")
def test_a_given_token_is_used_for_the_smoke_turn(context, programs, prompts):
    programs.outputs["stepline-dev-loop"] = URL
    heard = []
    tried = with_turn(context, lambda url, token: heard.append((url, token)) or "Blue.")
    assert deploy_stage(order(token="mine"), tried)[1] == 0
    assert heard == [("wss://far/live", "mine")]
    assert "Blue." in prompts.text


@pytest.mark.usefixtures("bootstrapped")
def test_without_a_pool_and_a_token_it_says_how_to_try(context, programs, prompts):
    programs.outputs["stepline-dev-loop"] = URL
    tried = with_turn(context, fail_with(AuthError("the token is refused")))
    assert deploy_stage(order(), tried)[1] == 0
    assert "STEPLINE_TOKEN=… stepline send --stage dev" in prompts.text


@pytest.mark.usefixtures("bootstrapped")
def test_a_turn_that_fails_has_its_own_exit_code_and_leaves_the_stage(context, programs, prompts):
    programs.outputs["stepline-dev-loop"] = URL
    tried = with_turn(context, fail_with(DependencyError("the turn failed", code="smoke_failed")))
    assert deploy_stage(order(token="mine"), tried)[1] == UNANSWERED
    assert "stepline doctor --aws --stage dev" in prompts.text
    assert load_deployment(context.home, "dev").deployed_at


@pytest.mark.usefixtures("bootstrapped")
def test_a_token_is_never_written_or_handed_to_a_child(context, programs):
    programs.outputs["stepline-dev-loop"] = URL
    deploy_stage(order(token="secret-token"), context)
    assert "secret-token" not in (context.home / "stages/dev.json").read_text()
    assert "secret-token" not in json.dumps([programs.commands, programs.environments])


@pytest.mark.usefixtures("bootstrapped")
def test_the_page_is_built_before_the_templates_and_its_address_is_printed_first(context, programs, prompts):
    programs.outputs["stepline-dev-edge"] = {"PageUrl": "https://chat.example/", "PageHost": "d1.example"}
    built = replace(context, build_page=lambda _say: programs.commands.append(["page", "build"]))
    deploy_stage(order(smoke=False), built)
    assert programs.verbs.index("build") < programs.verbs.index("synth")
    printed = [line.split()[0] for line in prompts.lines if line.startswith(("Page", "TableName"))]
    assert printed == ["PageUrl", "PageHost", "TableName"]


@pytest.mark.usefixtures("bootstrapped")
def test_the_first_turn_of_a_stage_with_a_domain_uses_the_address_of_aws(context, programs):
    own = {"WebSocketUrl": "wss://socket.example.com/", "SocketOwnUrl": "wss://far/live"}
    programs.outputs["stepline-dev-loop"] = own
    asked = []
    deploy_stage(order(token="mine"), with_turn(context, lambda url, _token: asked.append(url) or "Yes."))
    assert asked == ["wss://far/live"]


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (
            failed("page", "answers 403", "deploy again"),
            (UNANSWERED, "its page fails: answers 403; deploy again"),
        ),
        (warned("page", "no record", "a DNS record"), (0, "warn: page: no record; a DNS record")),
    ],
)
def test_a_page_that_fails_has_the_same_exit_code_and_one_without_a_domain_has_not(
    context, programs, prompts, check, expected
):
    programs.outputs["stepline-dev-loop"] = URL
    checked = replace(context, check_page=lambda _stage, _outputs: check)
    code, said = expected
    assert deploy_stage(order(token="mine"), checked)[1] == code
    assert said in prompts.text
