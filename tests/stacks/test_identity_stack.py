import pytest

from .conftest import synthesise, with_defaults

POOL = "AWS::Cognito::UserPool"
CLIENT = "AWS::Cognito::UserPoolClient"


@pytest.fixture(scope="module")
def pool(prod):
    (found,) = prod.resources(POOL).values()
    return found


@pytest.fixture(scope="module")
def client(prod):
    (found,) = prod.resources(CLIENT).values()
    return found


def environment(synthesis, name):
    for properties in synthesis.resources("AWS::Lambda::Function").values():
        if properties["Handler"] == f"lambdas.{name}.handler":
            return with_defaults(properties["Environment"]["Variables"])
    raise KeyError(name)


def test_only_an_administrator_makes_users(pool):
    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert pool["UsernameAttributes"] == ["email"]
    assert pool["UserAttributeUpdateSettings"] == {"AttributesRequireVerificationBeforeUpdate": ["email"]}


def test_passwords_are_long_and_a_second_factor_is_offered(pool):
    policy = pool["Policies"]["PasswordPolicy"]
    assert policy["MinimumLength"] >= 12
    assert all(policy[f"Require{kind}"] for kind in ("Lowercase", "Uppercase", "Numbers", "Symbols"))
    assert (pool["MfaConfiguration"], pool["EnabledMfas"]) == ("OPTIONAL", ["SOFTWARE_TOKEN_MFA"])


def test_no_client_writes_tenant_or_project(pool, client):
    attributes = {attribute["Name"] for attribute in pool["Schema"]}
    assert {"tenant", "project"} <= attributes
    assert client["WriteAttributes"] == ["email"]
    assert {"custom:tenant", "custom:project"} <= set(client["ReadAttributes"])


def test_the_client_keeps_no_secret_and_its_tokens_are_short(client):
    assert client["GenerateSecret"] is False
    assert client["EnableTokenRevocation"] is True
    assert client["PreventUserExistenceErrors"] == "ENABLED"
    assert (client["AccessTokenValidity"], client["IdTokenValidity"]) == (30, 30)
    assert client["TokenValidityUnits"]["IdToken"] == "minutes"


def test_one_signs_in_by_srp_or_by_code_and_never_by_a_plain_password_from_outside(client):
    assert set(client["ExplicitAuthFlows"]) == {
        "ALLOW_ADMIN_USER_PASSWORD_AUTH",
        "ALLOW_REFRESH_TOKEN_AUTH",
        "ALLOW_USER_SRP_AUTH",
    }
    assert client["AllowedOAuthFlows"] == ["code"]


def test_a_sign_in_leads_back_to_the_page_and_to_allowed_sites_and_nowhere_else(prod, client):
    page = "https://<Distribution.DomainName>"
    for name, path in (("CallbackURLs", "callback"), ("LogoutURLs", "signed-out")):
        urls = [prod.roles.text("state", url) for url in client[name]]
        assert urls == [f"{page}/{path}", "https://chat.example/"]


@pytest.mark.parametrize(("chosen", "prefix"), [("", "stepline-trial-us"), ("acme-chat", "acme-chat")])
def test_the_sign_in_pages_have_an_address_of_the_stage_and_the_account_or_a_chosen_one(
    tmp_path_factory, chosen, prefix
):
    found = synthesise(tmp_path_factory, name="trial", sign_in_prefix=chosen)
    (domain,) = found.resources("AWS::Cognito::UserPoolDomain").values()
    assert found.roles.text("state", domain["Domain"]) == prefix


def test_an_external_issuer_has_its_own_pages(dev):
    assert not dev.resources("AWS::Cognito::UserPoolDomain")


def test_users_of_prod_outlive_it(prod, bedrock):
    for synthesis, kept, protection in ((prod, "Retain", "ACTIVE"), (bedrock, "Delete", "INACTIVE")):
        (entry,) = synthesis.entries(POOL).values()
        assert entry["DeletionPolicy"] == kept
        assert entry["Properties"]["DeletionProtection"] == protection


def test_the_authorizer_trusts_the_pool_and_its_client(prod):
    heard = environment(prod, "authorizer")
    assert prod.roles.text("ingress", heard["STEPLINE_OIDC_ISSUER"]) == "<UsersPool.ProviderURL>"
    assert prod.roles.text("ingress", heard["STEPLINE_OIDC_AUDIENCE"]) == "<UsersPoolClient>"
    assert heard["STEPLINE_TENANT_CLAIM"] == "custom:tenant"
    assert heard["STEPLINE_PROJECT_CLAIM"] == "custom:project"
    assert heard["STEPLINE_ROLE_CLAIM"] == "cognito:groups"
    assert heard["STEPLINE_PROJECT_ADMINS"] == "project_admin"
    assert heard["STEPLINE_TENANT_ADMINS"] == "tenant_admin"


def test_an_external_issuer_replaces_the_pool(dev, local):
    for synthesis, issuer in ((dev, "https://login.example"), (local, "http://127.0.0.1:4567")):
        assert not synthesis.resources(POOL)
        heard = environment(synthesis, "authorizer")
        assert heard["STEPLINE_OIDC_ISSUER"] == issuer
        assert heard["STEPLINE_OIDC_AUDIENCE"] == "stepline"
        assert (heard["STEPLINE_TENANT_CLAIM"], heard["STEPLINE_PROJECT_CLAIM"]) == ("tenant", "project")


def test_the_outputs_name_the_user_pool(prod):
    for name in ("UserPoolId", "UserPoolClientId"):
        prod.templates["state"].has_output(name, {})


def test_without_a_page_and_allowed_sites_no_sign_in_leads_to_an_address_that_is_none(tmp_path_factory):
    (bare,) = synthesise(tmp_path_factory, name="bare", page=False).resources(CLIENT).values()
    assert bare["AllowedOAuthFlowsUserPoolClient"] is False
    assert not bare.get("CallbackURLs")
    sites = synthesise(tmp_path_factory, name="sites", page=False, allowed_origins="https://chat.example")
    (client,) = sites.resources(CLIENT).values()
    assert client["CallbackURLs"] == client["LogoutURLs"] == ["https://chat.example/"]
