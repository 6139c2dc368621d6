"""The choices of who is trusted, and of the page that signs users in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from stepline_cdk.choice.declare import Choices, Origin, choice, like

CALLER: Final = r"arn:aws[a-z-]*:iam::\d{12}:(root|(role|user)/[\w+=,.@/-]{1,512})"
"""The principals that may assume a role: an account, or a role or user of one; never everyone."""
EMULATED: Final = "arn:aws:iam::000000000000:root"
"""The account of the emulator."""
DEPLOY: Final = "../how-to/deploy.md"

SAML_EMAIL: Final = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress"
"""The attribute of addresses of most SAML providers."""


def _email_claim(before: Mapping[str, Any]) -> str:
    return SAML_EMAIL if before["saml_metadata_url"] else "email"


class SignInChoices(Choices):
    """Users, their claims, and the chat page."""

    oidc_issuer: str = choice(
        "",
        "Issuer of the tokens that open a websocket; without one the state stack has a Cognito user pool",
        said="a user pool of its own",
        guarded=True,
    )
    oidc_audience: str = choice(
        "stepline",
        "Required `aud` of a token; with a user pool it is the pool's client",
        guarded=True,
    )
    oidc_jwks_url: str = choice(
        "",
        "Key set of the issuer, if its discovery document should not be fetched",
        said="discovered",
        guarded=True,
    )
    oidc_scopes: tuple[str, ...] = choice(
        ("openid", "email"), "Scopes that a page requests when it signs a user in"
    )
    oidc_client_id: str = choice(
        "",
        f"Client of the page at [an issuer of your own]({DEPLOY}#an-issuer-of-your-own); if it differs from the audience, the page"
        " sends the access token",
        said="`oidc_audience`, or the pool's client",
        guarded=True,
    )
    oidc_origins: tuple[Origin, ...] = choice(
        (), "Further origins of that issuer that the page calls, for example that of its token endpoint"
    )
    sign_in_prefix: Annotated[
        str,
        like(
            "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
            "small letters, digits and dashes, at most 63 characters",
            empty=True,
        ),
    ] = choice(
        "",
        "First part of the domain of Cognito's sign-in pages",
        said="`stepline-<stage>-<account>`",
        guarded=True,
    )
    tenant_claim: str = choice(
        "",
        "Claim that names a user's tenant; of a list, as `cognito:groups` is one, the item `tenant:NAME`",
        said="`tenant`, of the pool `custom:tenant`",
        guarded=True,
    )
    project_claim: str = choice(
        "",
        "Claim that names a user's project; of a list the item `project:NAME`",
        said="`project`, of the pool `custom:project`",
        guarded=True,
    )
    role_claim: str = choice(
        "cognito:groups", "Claim that names a user's roles: a text, or a list of them", guarded=True
    )
    project_admins: tuple[str, ...] = choice(
        ("project_admin",),
        "Values of that claim that make a user an admin of the project",
        guarded=True,
    )
    tenant_admins: tuple[str, ...] = choice(
        ("tenant_admin",),
        "Values of that claim that make a user an admin of the tenant",
        guarded=True,
    )
    saml_metadata_url: Annotated[
        str, like(r"https://\S+", "the https address of a provider's SAML metadata", empty=True)
    ] = choice(
        "",
        f"Metadata of a company's SAML provider whose users [may sign in to the pool]({DEPLOY}#users-of-a-company)",
        guarded=True,
    )
    federation_issuer: Annotated[
        str, like(r"https://\S+", "the https address of an OpenID Connect provider", empty=True)
    ] = choice(
        "",
        "Issuer of a company's OpenID Connect provider whose users may sign in to the pool, instead of SAML",
        guarded=True,
    )
    federation_client_id: str = choice("", "The pool's client id at that issuer", guarded=True)
    federation_secret_arn: Annotated[
        str,
        like(
            r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:\S+",
            "the ARN of a secret",
            empty=True,
        ),
    ] = choice(
        "",
        "Secret whose text is the pool's client secret at that issuer",
        cost="0.40 USD a month",
        guarded=True,
        private=True,
    )
    federation_email_claim: str = choice(
        _email_claim,
        "Claim, or SAML attribute, of that provider with a user's address",
        said=f"`email`, of SAML `{SAML_EMAIL}`",
    )
    federation_tenant_claim: str = choice(
        "",
        "Claim, or SAML attribute, of that provider with a user's tenant, which users must not be able to change there; together with"
        " `federation_project_claim`",
        said="none: an administrator sets it in the pool",
        guarded=True,
    )
    federation_project_claim: str = choice(
        "",
        "The same with a user's project",
        said="none: an administrator sets it in the pool",
        guarded=True,
    )
    allowed_origins: tuple[Origin, ...] = choice(
        (),
        "Further origins that a browser may connect from, as browsers write them (`https://chat.example.com`: no path, no capital"
        " letter); with a user pool its sign-in page may also redirect to them",
    )
    page: bool = choice(
        True,
        f"Deploy the [chat page]({DEPLOY}#the-page) with its address; without it the stacks `edge` and `page` are left out, and"
        " nothing needs to be built",
        local=False,
        guarded=True,
    )
    page_domain: Annotated[
        str,
        like(
            r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}",
            "a domain like chat.example.com",
            empty=True,
        ),
    ] = choice(
        "",
        f"[Domain]({DEPLOY}#a-domain-of-your-own) of the chat page, together with `page_certificate_arn`",
        said="the distribution's own",
        guarded=True,
    )
    page_certificate_arn: Annotated[
        str,
        like(
            r"arn:aws[a-z-]*:acm:us-east-1:\d{12}:certificate/[0-9a-f-]+",
            "the ARN of a certificate of ACM in us-east-1, which CloudFront needs",
            empty=True,
        ),
    ] = choice("", "ARN of that domain's certificate, in `us-east-1` wherever the stage is", guarded=True)
    event_source_principals: tuple[
        Annotated[str, like(CALLER, "the ARN of an account, a role or a user")], ...
    ] = choice(
        (),
        "ARNs of accounts, roles or users that may [submit events](../how-to/send-events.md) for your users; without any, the role"
        " does not exist",
        local=(EMULATED,),
        guarded=True,
    )
