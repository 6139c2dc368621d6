"""The smoke turn: its temporary user, its reported end, and its deadline."""

import base64
import json

import pytest
from botocore.stub import ANY, Stubber

from stepline.errors import AuthError, DependencyError
from stepline.local.cloud.deploy import UNANSWERED, DeadlineClock, deploy_stage, lent_token, try_turn
from stepline.model.wire.event import AckFrame, ClientEvent, ErrorFrame, EventFrame
from tests.unit.local.client.gateway import running_gateway
from tests.unit.local.cloud.recorded_programs import order
from tests.unit.local.cloud.test_deploy_command import URL, fail_with, with_turn


@pytest.fixture
def pool(account):
    """Return the outputs of a stage with a pool like ours: users sign in by email address."""
    cognito = account.client("cognito-idp")
    pool = cognito.create_user_pool(
        PoolName="p",
        UsernameAttributes=["email"],
        Schema=[
            {"Name": name, "AttributeDataType": "String", "Mutable": True} for name in ("tenant", "project")
        ],
    )["UserPool"]["Id"]
    client = cognito.create_user_pool_client(
        UserPoolId=pool, ClientName="c", ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]["ClientId"]
    return {"UserPoolId": pool, "UserPoolClientId": client}


def users(account, outputs):
    return account.client("cognito-idp").list_users(UserPoolId=outputs["UserPoolId"])["Users"]


def claims(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def test_the_user_speaks_for_the_smoke_tenant_and_is_gone_after(account, pool, prompts):
    with lent_token(account, pool, prompts.say) as token:
        (user,) = users(account, pool)
        said = claims(token)
        assert said["custom:tenant"] == said["custom:project"] == "smoke"
        assert said["token_use"] == "id"
        assert user["UserStatus"] == "CONFIRMED"
    assert users(account, pool) == []
    assert prompts.lines == []


@pytest.mark.parametrize("error", [DependencyError("no"), KeyboardInterrupt()])
def test_the_user_is_gone_when_the_turn_fails_too(account, pool, prompts, error):
    def run():
        with lent_token(account, pool, prompts.say):
            raise error

    with pytest.raises(type(error)):
        run()
    assert users(account, pool) == []


def test_a_user_that_cannot_sign_in_is_deleted(account, pool, prompts):
    broken = {**pool, "UserPoolClientId": "another"}
    with pytest.raises(DependencyError) as caught, lent_token(account, broken, prompts.say):
        pass
    assert caught.value.reason == "smoke_failed"
    assert users(account, pool) == []


def test_a_user_that_was_never_made_needs_no_deletion(account, prompts):
    gone = {"UserPoolId": "eu-central-1_nowhere", "UserPoolClientId": "c"}
    with pytest.raises(DependencyError), lent_token(account, gone, prompts.say):
        pass


def test_an_undeleted_user_is_reported_with_the_delete_command(account, pool, prompts):
    cognito = account.client("cognito-idp")
    name = {"UserPoolId": pool["UserPoolId"], "Username": ANY}
    with Stubber(cognito) as stub:
        stub.add_response(
            "admin_create_user",
            {},
            {**name, "TemporaryPassword": ANY, "MessageAction": "SUPPRESS", "UserAttributes": ANY},
        )
        stub.add_response("admin_set_user_password", {}, {**name, "Password": ANY, "Permanent": True})
        stub.add_response(
            "admin_initiate_auth",
            {"AuthenticationResult": {"IdToken": "t"}},
            {
                "UserPoolId": pool["UserPoolId"],
                "ClientId": pool["UserPoolClientId"],
                "AuthFlow": "ADMIN_USER_PASSWORD_AUTH",
                "AuthParameters": ANY,
            },
        )
        stub.add_client_error("admin_delete_user", "AccessDeniedException", expected_params=name)
        with lent_token(account, pool, prompts.say) as token:
            assert token == "t"
    assert f"admin-delete-user --region eu-central-1 --user-pool-id {pool['UserPoolId']}" in prompts.text


def test_a_pool_that_requires_more_than_a_password_is_reported(account, pool, prompts):
    cognito = account.client("cognito-idp")
    with Stubber(cognito) as stub:
        stub.add_response("admin_create_user", {})
        stub.add_response("admin_set_user_password", {})
        stub.add_response("admin_initiate_auth", {"ChallengeName": "MFA_SETUP"})
        stub.add_response("admin_delete_user", {})
        with pytest.raises(DependencyError, match="MFA_SETUP"), lent_token(account, pool, prompts.say):
            pass
        stub.assert_no_pending_responses()


@pytest.mark.usefixtures("bootstrapped")
def test_a_deployment_with_a_pool_is_tried_by_a_user_of_it(context, programs, account, pool):
    programs.outputs["stepline-dev-loop"] = {**URL, **pool}
    heard = []
    assert (
        deploy_stage(order(), with_turn(context, lambda _url, token: heard.append(claims(token)) or "Yes."))[
            1
        ]
        == 0
    )
    assert heard[0]["custom:tenant"] == "smoke"
    assert users(account, pool) == []


@pytest.mark.usefixtures("bootstrapped")
def test_a_deployment_whose_turn_fails_leaves_no_user(context, programs, account, pool):
    programs.outputs["stepline-dev-loop"] = {**URL, **pool}
    tried = with_turn(context, fail_with(DependencyError("late", code="no_answer")))
    assert deploy_stage(order(), tried)[1] == UNANSWERED
    assert users(account, pool) == []


def answered(kind, **data):
    """Return a script: the message is admitted, a turn opens and ends with this event."""

    def script(request):
        if request["action"] != "send":
            return []
        names = {"conversation": request["conversation"]}
        event = ClientEvent(type=kind, route="", ts="", turn_id="turn_1", data=data)
        return [
            AckFrame(message_id=request["message_id"], n=1, kind="prompt", **names),
            EventFrame(n=1, prev=0, claim=1, events=(), **names),
            EventFrame(n=2, prev=1, claim=1, events=(event,), **names),
        ]

    return script


def test_the_turn_is_spoken_over_the_websocket_with_the_token():
    with running_gateway() as gateway:
        gateway.script = answered("chat.complete", answer="Yes.")
        assert try_turn(gateway.url, "t0") == "Yes."
        assert gateway.headers[0]["Authorization"] == "Bearer t0"
        assert gateway.heard()["text"] == "Answer with one word."


def test_a_turn_that_ends_badly_says_why():
    with running_gateway() as gateway:
        gateway.script = answered("chat.error", code="model_refused", error="no key")
        with pytest.raises(DependencyError, match=r"model_refused.*no key") as caught:
            try_turn(gateway.url, "t0")
    assert caught.value.reason == "smoke_failed"


def test_a_message_that_is_refused_says_why():
    with running_gateway() as gateway:
        gateway.script = lambda request: [
            ErrorFrame(code="not_found", message="another user's", message_id=request["message_id"])
        ]
        with pytest.raises(DependencyError, match="not_found") as caught:
            try_turn(gateway.url, "t0")
    assert caught.value.reason == "smoke_failed"


def test_a_refused_token_is_an_auth_error():
    with running_gateway() as gateway:
        gateway.refuse_with = 401
        with pytest.raises(AuthError):
            try_turn(gateway.url, "t0")


def test_a_clock_with_a_deadline_ends_the_wait():
    clock = DeadlineClock(patience_s=-1.0)
    with pytest.raises(DependencyError) as caught:
        clock.monotonic_s()
    assert caught.value.reason == "no_answer"
