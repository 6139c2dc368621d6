"""Users of a company's provider in the stage's own pool: what the pool takes from it, and what no user may change."""

import json

import pytest

from stepline.errors import InputError
from stepline_cdk.stage import OWN_PROFILE, Stage

from .conftest import Synthesis, deployed_variables
from .test_identity_stack import CLIENT, environment

PROVIDER = "AWS::Cognito::UserPoolIdentityProvider"
SECRET = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:company-AbCdEf"
SAML = {"saml_metadata_url": "https://company.example/metadata.xml"}
OIDC = {
    "federation_issuer": "https://company.example",
    "federation_client_id": "stepline",
    "federation_secret_arn": SECRET,
}
CLAIMS = {"federation_tenant_claim": "org", "federation_project_claim": "team"}


def synthesis(factory, **choices):
    return Synthesis(Stage(name="trial", exec_image="none", **choices), factory.mktemp("federation"))


@pytest.fixture(scope="module")
def saml(tmp_path_factory):
    return synthesis(tmp_path_factory, **SAML)


@pytest.fixture(scope="module")
def oidc(tmp_path_factory):
    return synthesis(tmp_path_factory, **OIDC, **CLAIMS)


def provider(found):
    (only,) = found.resources(PROVIDER).values()
    return only


def client(found):
    (only,) = found.resources(CLIENT).values()
    return only


def test_users_of_a_saml_provider_sign_in_beside_those_of_the_pool(saml):
    found = provider(saml)
    assert (found["ProviderType"], found["ProviderDetails"]["MetadataURL"]) == (
        "SAML",
        SAML["saml_metadata_url"],
    )
    assert set(found["AttributeMapping"]) == {"email"}
    assert found["AttributeMapping"]["email"].endswith("/emailaddress")
    names = [saml.roles.text("state", name) for name in client(saml)["SupportedIdentityProviders"]]
    assert names == ["COGNITO", "<UsersSaml>"]


def test_without_claims_of_the_provider_administrators_alone_say_the_tenant(saml):
    assert client(saml)["WriteAttributes"] == ["email"]
    assert "ALLOW_USER_SRP_AUTH" in client(saml)["ExplicitAuthFlows"]


def test_the_secret_of_an_oidc_provider_is_a_reference_in_the_template(oidc):
    details = provider(oidc)["ProviderDetails"]
    assert (details["oidc_issuer"], details["client_id"]) == ("https://company.example", "stepline")
    assert details["client_secret"] == f"{{{{resolve:secretsmanager:{SECRET}:SecretString:::}}}}"


def test_the_pool_copies_tenant_and_project_and_no_user_gets_a_token_that_writes_them(oidc):
    assert provider(oidc)["AttributeMapping"] == {
        "email": "email",
        "custom:tenant": "org",
        "custom:project": "team",
    }
    found = client(oidc)
    assert set(found["WriteAttributes"]) == {"email", "custom:tenant", "custom:project"}
    # Sign-ins outside of the sign-in page have the scope of one's own profile; the first of these is an administrator's.
    assert set(found["ExplicitAuthFlows"]) == {"ALLOW_ADMIN_USER_PASSWORD_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"}
    assert found["AllowedOAuthFlows"] == ["code"]
    assert OWN_PROFILE not in found["AllowedOAuthScopes"]


def test_earlier_sessions_end_when_the_provider_begins_to_say_the_tenant(saml, oidc):
    assert saml.resources(CLIENT).keys().isdisjoint(oidc.resources(CLIENT))


def test_the_authorizer_trusts_the_pool_and_the_outputs_have_the_address_for_the_provider(saml, oidc):
    for found, path in ((saml, "saml2"), (oidc, "oauth2")):
        heard = environment(found, "authorizer")
        assert found.roles.text("ingress", heard["STEPLINE_OIDC_ISSUER"]) == "<UsersPool.ProviderURL>"
        assert heard["STEPLINE_TENANT_CLAIM"] == "custom:tenant"
        url = found.roles.text("state", found.documents()["state"]["Outputs"]["FederationUrl"]["Value"])
        assert url.endswith(f".amazoncognito.com/{path}/idpresponse")
    assert "company" not in json.dumps(deployed_variables(oidc, "api"))


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"saml_metadata_url": "http://company.example/x"}, "saml_metadata_url: got 'http:"),
        ({"federation_issuer": "company"}, "federation_issuer: got 'company', takes the https"),
        (
            {**OIDC, "federation_secret_arn": ""},
            "federation_issuer, federation_client_id and federation_secr",
        ),
        (
            {**OIDC, "federation_secret_arn": "hunter2"},
            "federation_secret_arn: got a text that is not repeated",
        ),
        ({**OIDC, **SAML}, "saml_metadata_url and federation_issuer: got both, takes one"),
        (CLAIMS, "federation_tenant_claim and federation_project_claim: got one alone, or no provider"),
        (
            {**SAML, "federation_tenant_claim": "org"},
            "federation_tenant_claim and federation_project_claim: got",
        ),
        (
            {**SAML, "oidc_issuer": "https://login.example"},
            "saml_metadata_url, federation_issuer and oidc_issuer: got a provider without",
        ),
        ({**SAML, "page": "false"}, "page and allowed_origins: got neither with a company's provider"),
        ({**SAML, "oidc_scopes": f"openid,{OWN_PROFILE}"}, f"oidc_scopes: got '{OWN_PROFILE}', takes other"),
    ],
)
def test_a_provider_that_cannot_be_is_one_sentence(choices, sentence):
    with pytest.raises(InputError) as refused:
        Stage(**choices)
    assert str(refused.value).startswith(sentence)
    assert refused.value.reason == "bad_choice"
