import json

import pytest

from stepline_cdk.identity import given_trust
from stepline_cdk.ingress import make_page_config
from stepline_cdk.stage import Stage

from .conftest import with_defaults

FIELDS = ["issuer", "client_id", "scopes", "http_url", "socket_url", "stage"]
FIELDS += ["inspect", "uploads", "version", "token", "ui"]


def page_config(synthesis):
    """Return the document for pages, with names in place of references."""
    output = synthesis.documents()["ingress"]["Outputs"]["PageConfig"]["Value"]
    return json.loads(synthesis.roles.text("ingress", output))


def trusted(synthesis, function="authorizer"):
    """Return the settings of the authorizer or another function, with names in place of references."""
    functions = synthesis.resources("AWS::Lambda::Function").values()
    (heard,) = (
        one["Environment"]["Variables"]
        for one in functions
        if one["Handler"] == f"lambdas.{function}.handler"
    )
    return {name: synthesis.roles.text("ingress", value) for name, value in with_defaults(heard).items()}


def test_a_page_finds_its_stage_by_one_document(any_stage):
    found = page_config(any_stage)
    assert list(found) == FIELDS
    assert (found["stage"], found["inspect"]) == (any_stage.stage.name, any_stage.stage.inspect)


def test_a_page_signs_in_at_the_trusted_issuer_and_calls_its_own_stage(any_stage):
    found, heard = page_config(any_stage), trusted(any_stage)
    assert found["issuer"] == heard["STEPLINE_OIDC_ISSUER"]
    assert found["client_id"] == heard["STEPLINE_OIDC_AUDIENCE"]
    assert found["socket_url"] == trusted(any_stage, "api")["STEPLINE_SOCKET_URL"]
    assert (found["token"], found["ui"]) == ("id", [])
    outputs = any_stage.documents()["ingress"]["Outputs"]
    assert found["http_url"] == any_stage.roles.text("ingress", outputs["HttpUrl"]["Value"])


def test_the_sign_in_page_gives_the_scopes_that_a_page_asks_for(prod):
    (client,) = prod.resources("AWS::Cognito::UserPoolClient").values()
    assert client["AllowedOAuthScopes"] == page_config(prod)["scopes"] == ["openid", "email"]


@pytest.mark.parametrize(
    "word", ["arn:", "secret", "table", "bucket", "machine", "anthropic", "redis", "key"]
)
def test_the_document_for_pages_names_nothing_but_the_doors(any_stage, word):
    assert word not in json.dumps(page_config(any_stage)).lower()


def test_a_client_of_an_issuer_elsewhere_may_differ_from_the_audience_of_its_access_tokens():
    stage = Stage(oidc_issuer="https://login.example", oidc_audience="api", oidc_client_id="spa")
    found = make_page_config(stage, given_trust(stage), http_url="h", socket_url="s", dashboards=["default"])
    assert (found["client_id"], found["token"], found["ui"]) == ("spa", "access", ["default"])
