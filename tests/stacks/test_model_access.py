"""Rights on models, for every way in which a role may name one.

Resource types and their ARNs are those of `bedrock:InvokeModelWithResponseStream`. Source: Service Authorization
Reference, "Actions, resources, and condition keys for Amazon Bedrock".
"""

from fnmatch import fnmatchcase

import aws_cdk as cdk
import pytest

from stepline.ports.model import ModelServer, RoleChoice
from stepline_cdk.access import bedrock_arns, converse_arns
from stepline_cdk.stage import Stage

HERE, US = "eu-central-1", "111122223333"
FORMS = {
    "foundation-model": "arn:aws:bedrock:{region}::foundation-model/{id}",
    "inference-profile": "arn:aws:bedrock:{region}:{account}:inference-profile/{id}",
    "application-inference-profile": "arn:aws:bedrock:{region}:{account}:application-inference-profile/{id}",
    "provisioned-model": "arn:aws:bedrock:{region}:{account}:provisioned-model/{id}",
    "imported-model": "arn:aws:bedrock:{region}:{account}:imported-model/{id}",
    "custom-model-deployment": "arn:aws:bedrock:{region}:{account}:custom-model-deployment/{id}",
    "prompt-router": "arn:aws:bedrock:{region}:{account}:prompt-router/{id}",
    "default-prompt-router": "arn:aws:bedrock:{region}:{account}:default-prompt-router/{id}",
    "marketplace/model-endpoint": "arn:aws:bedrock:{region}:{account}:marketplace/model-endpoint/{id}",
}
CLAUDE = "anthropic.claude-haiku-5-5"


def arn(kind, id, region=HERE):  # noqa: A002 - the reference's word
    return FORMS[kind].format(region=region, account=US, id=id)


MODELS = [arn("foundation-model", CLAUDE, region) for region in (HERE, "eu-west-1", "")]
"""Of a profile: in its own region, in another one, and in none, as a global profile routes."""
PROFILE = arn("application-inference-profile", "a1b2c3d4e5f6")
THROUGHPUT = arn("provisioned-model", "abc123def456")
WAYS = {
    CLAUDE: MODELS[:1],
    MODELS[0]: MODELS[:1],
    f"eu.{CLAUDE}": [arn("inference-profile", f"eu.{CLAUDE}"), *MODELS[:2]],
    f"global.{CLAUDE}": [arn("inference-profile", f"global.{CLAUDE}"), *MODELS],
    arn("inference-profile", f"us.{CLAUDE}"): [arn("inference-profile", f"us.{CLAUDE}"), *MODELS[:2]],
    PROFILE: [PROFILE, *MODELS],
    THROUGHPUT: [THROUGHPUT],
}
"""A name in `model_roles`, and the resources that a call of it needs."""


def granted(stage):
    stack = cdk.Stack(cdk.App(), "Models", env=cdk.Environment(account=US, region=HERE))
    allowed = [one.replace(stack.partition, "aws") for one in bedrock_arns(stack, stage.models)]
    return lambda resource: any(fnmatchcase(resource, pattern) for pattern in allowed)


@pytest.mark.parametrize("field", ["model", "fallback"])
@pytest.mark.parametrize("name", WAYS)
def test_each_way_to_name_a_model_is_granted(name, field):
    allows = granted(Stage(model_provider="bedrock", model_roles={"*": RoleChoice(**{field: name})}))
    assert [resource for resource in WAYS[name] if not allows(resource)] == []


def test_resources_of_the_account_that_no_role_names_are_not_granted():
    allows = granted(Stage(model_provider="bedrock", model_roles={"*": RoleChoice(model=PROFILE)}))
    others = [arn(kind, "abc") for kind in FORMS]
    assert [one for one in (THROUGHPUT, *others) if allows(one)] == []
    assert not allows(PROFILE.replace(US, "444455556666"))
    assert not allows(arn("foundation-model", "amazon.nova-pro-v1:0"))
    assert not allows(arn("inference-profile", "eu.amazon.nova-pro-v1:0"))


@pytest.mark.parametrize("kind", FORMS.keys() - {"application-inference-profile", "provisioned-model"})
def test_the_arn_of_a_model_that_the_provider_cannot_call_is_refused(kind):
    with pytest.raises(ValueError, match=r"^model_roles: got 'arn:aws:bedrock"):
        Stage(model_provider="bedrock", model_roles={"*": RoleChoice(model=arn(kind, "amazon.nova-1"))})


NOVA = "eu.amazon.nova-2-lite-v1:0"


def test_exactly_the_models_of_roles_over_converse_are_granted():
    stage = Stage(
        model_providers={"nova": ModelServer(wire="converse")},
        model_roles={"*": RoleChoice(model=f"nova:{NOVA}", fallback="nova:meta.llama3-8b-instruct-v1:0")},
    )
    stack = cdk.Stack(cdk.App(), "Models", env=cdk.Environment(account=US, region=HERE))
    allowed = [one.replace(stack.partition, "aws") for one in converse_arns(stack, stage.converse_models)]
    assert not stage.asks_bedrock
    assert allowed == [
        "arn:aws:bedrock:*::foundation-model/amazon.nova-2-lite-v1:0",
        f"arn:aws:bedrock:{HERE}:{US}:inference-profile/{NOVA}",
        "arn:aws:bedrock:*::foundation-model/meta.llama3-8b-instruct-v1:0",
    ]


@pytest.mark.parametrize(
    ("rows", "roles", "words"),
    [
        ({}, {"*": RoleChoice(model="own:m")}, "model_roles: got 'own:…'"),
        ({}, {"*": RoleChoice(fallback="own:m")}, "model_roles: got 'own:…'"),
        ({"own": ModelServer()}, {}, "model_providers: got 'own'"),
        ({"own": ModelServer(secret_arn="sk-secret")}, {}, "model_providers"),
    ],
)
def test_a_provider_that_could_not_be_called_is_refused_at_synthesis(rows, roles, words):
    with pytest.raises(ValueError, match=words):
        Stage(model_providers=rows, model_roles=roles)


def test_a_stage_grants_the_key_of_each_row():
    arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:own-AbCdEf"
    row = ModelServer(base_url="https://models.example.com/v1", secret_arn=arn)
    stage = Stage(model_providers={"own": row}, model_roles={"*": RoleChoice(model="own:m")})
    assert (stage.model_secrets, stage.lacks_key) == ((arn,), False)
    assert Stage().lacks_key
