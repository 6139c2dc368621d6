"""The trusted tokens: those of an issuer that the deployment names, or of its own user pool."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from stepline_cdk.former_export import keep_export
from stepline_cdk.stage import Stage

TENANT_CLAIM: Final = "custom:tenant"
PROJECT_CLAIM: Final = "custom:project"
_SEGMENT_MAX_CHARS: Final = 64


class Trust(NamedTuple):
    """The required values of a token, and the claims with tenant, project and roles.

    As in the settings of the same names.
    """

    oidc_issuer: str
    oidc_audience: str
    oidc_jwks_url: str
    tenant_claim: str
    project_claim: str
    role_claim: str
    project_admins: tuple[str, ...]
    tenant_admins: tuple[str, ...]


def given_trust(stage: Stage) -> Trust:
    """Return the trust in an external issuer."""
    return Trust(
        oidc_issuer=stage.oidc_issuer,
        oidc_audience=stage.oidc_audience,
        oidc_jwks_url=stage.oidc_jwks_url,
        tenant_claim=stage.tenant_claim or "tenant",
        project_claim=stage.project_claim or "project",
        **_roles(stage),
    )


def given_origins(stage: Stage) -> tuple[str, ...]:
    """Return the origins of an external issuer: its own, and those of endpoints elsewhere."""
    # By hand: a pool of another part of the app is a reference, which is no valid host.
    return ("/".join(stage.oidc_issuer.split("/")[:3]), *stage.oidc_origins)


class UserPool(Construct):
    """Users created by an administrator, and the one client for their sign-in, on Cognito's own pages.

    `origins` are those that a page calls for it: of the issuer's documents, and of the sign-in with its tokens.

    Tenant and project are attributes that no client may write, so a user cannot change them. They are in ID
    tokens only; for access tokens, set the claim to `cognito:groups` and put users into groups `tenant:NAME`
    and `project:NAME`.
    """

    def __init__(self, scope: Construct, stage: Stage, page_origin: str) -> None:
        """Add the pool, its sign-in pages, and its client, which leads back to the chat page at `page_origin`."""
        super().__init__(scope, "Users")
        self.pool = cognito.UserPool(
            self,
            "Pool",
            user_pool_name=stage.optional_name("users"),
            # All features used here are in the plan with the lowest price per user. Threat protection is not: the plan Plus, which has
            # it, costs 0.02 USD for each active user a month, the first one too. Source: aws.amazon.com/cognito/pricing.
            feature_plan=cognito.FeaturePlan.LITE,
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(email=True),
            sign_in_case_sensitive=False,
            standard_attributes=cognito.StandardAttributes(
                email=cognito.StandardAttribute(required=True, mutable=True)
            ),
            auto_verify=cognito.AutoVerifiedAttrs(email=True),
            keep_original=cognito.KeepOriginalAttrs(email=True),
            custom_attributes={
                claim.removeprefix("custom:"): cognito.StringAttribute(
                    mutable=True, max_len=_SEGMENT_MAX_CHARS
                )
                for claim in (TENANT_CLAIM, PROJECT_CLAIM)
            },
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_lowercase=True,
                require_uppercase=True,
                require_digits=True,
                require_symbols=True,
                temp_password_validity=cdk.Duration.days(3),
            ),
            mfa=cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            deletion_protection=stage.keep_data,
            removal_policy=stage.removal_policy,
        )
        provider = self._add_provider(stage) if stage.is_federated else None
        self.client = self._add_client(stage, page_origin, provider)
        stack = cdk.Stack.of(self)
        # A prefix is unique in the whole region, over all accounts.
        prefix = stage.sign_in_prefix or stage.needed_name("sign-in", stack.account)
        domain = self.pool.add_domain(
            "Domain", cognito_domain=cognito.CognitoDomainOptions(domain_prefix=prefix)
        )
        # By the prefix itself: another prefix replaces the domain under its own id, and its readers must change with it.
        sign_in = f"https://{prefix}.auth.{stack.region}.amazoncognito.com"
        keep_export(self, stage, domain.domain_name)
        if provider:
            path = "saml2" if stage.saml_metadata_url else "oauth2"
            cdk.CfnOutput(scope, "FederationUrl", value=f"{sign_in}/{path}/idpresponse")
        self.origins = (f"https://cognito-idp.{stack.region}.{stack.url_suffix}", sign_in)

    def _add_provider(self, stage: Stage) -> cognito.IUserPoolIdentityProvider:
        """Add a company's provider, whose claims the pool copies into a user's attributes at each sign-in."""
        claims = {TENANT_CLAIM: stage.federation_tenant_claim, PROJECT_CLAIM: stage.federation_project_claim}
        mapping = cognito.AttributeMapping(
            email=cognito.ProviderAttribute.other(stage.federation_email_claim),
            custom={name: cognito.ProviderAttribute.other(claim) for name, claim in claims.items() if claim},
        )
        if stage.saml_metadata_url:
            return cognito.UserPoolIdentityProviderSaml(
                self,
                "Saml",
                name="company-saml",
                user_pool=self.pool,
                metadata=cognito.UserPoolIdentityProviderSamlMetadata.url(stage.saml_metadata_url),
                attribute_mapping=mapping,
            )
        secret = cdk.SecretValue.secrets_manager(stage.federation_secret_arn)
        return cognito.UserPoolIdentityProviderOidc(
            self,
            "Oidc",
            name="company-oidc",
            user_pool=self.pool,
            issuer_url=stage.federation_issuer,
            client_id=stage.federation_client_id,
            # In the template it is a reference, which CloudFormation resolves.
            client_secret=secret.unsafe_unwrap(),
            scopes=["openid", "email", "profile"],
            attribute_mapping=mapping,
        )

    def _add_client(
        self, stage: Stage, page_origin: str, provider: cognito.IUserPoolIdentityProvider | None
    ) -> cognito.UserPoolClient:
        """Add a client without a secret: SRP, or code and PKCE for the chat page and pages of the allowed origins.

        Cognito copies a provider's claims only into attributes that the client may write. A user writes them with a token of one
        scope, which sign-ins by SRP give and those by a code do not: where a provider says the tenant, none signs in by SRP, and the
        client is another one, so that no refresh token of an earlier sign-in is valid.
        Source: docs.aws.amazon.com/cognito, "UserPoolClientType", WriteAttributes.
        """
        others = [f"{origin}/" for origin in stage.allowed_origins]
        pages = [f"{page_origin}/callback", *others] if page_origin else others
        own = cognito.ClientAttributes()
        written = own.with_standard_attributes(email=True)
        if stage.federation_tenant_claim:
            written = written.with_custom_attributes(TENANT_CLAIM, PROJECT_CLAIM)
        named = [cognito.UserPoolClientIdentityProvider.COGNITO]
        if provider:
            named.append(cognito.UserPoolClientIdentityProvider.custom(provider.provider_name))
        return self.pool.add_client(
            "FederatedClient" if stage.federation_tenant_claim else "Client",
            user_pool_client_name=stage.optional_name("users"),
            generate_secret=False,
            # With an administrator's credentials only: for the smoke test of a deployment.
            auth_flows=cognito.AuthFlow(user_srp=not stage.federation_tenant_claim, admin_user_password=True),
            # Without an address to lead back to there is no sign-in page, and Cognito takes no empty list of them.
            disable_o_auth=not pages,
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.custom(scope) for scope in stage.oidc_scopes],
                callback_urls=pages,
                logout_urls=[f"{page_origin}/signed-out", *others] if page_origin else others,
            )
            if pages
            else None,
            supported_identity_providers=named,
            read_attributes=own.with_standard_attributes(
                email=True, email_verified=True
            ).with_custom_attributes(TENANT_CLAIM, PROJECT_CLAIM),
            write_attributes=written,
            access_token_validity=cdk.Duration.minutes(30),
            id_token_validity=cdk.Duration.minutes(30),
            refresh_token_validity=cdk.Duration.days(7),
            auth_session_validity=cdk.Duration.minutes(3),
            enable_token_revocation=True,
            prevent_user_existence_errors=True,
        )

    def trust(self, stage: Stage) -> Trust:
        """Return the trust in this pool's own tokens for this client."""
        return Trust(
            oidc_issuer=self.pool.user_pool_provider_url,
            oidc_audience=self.client.user_pool_client_id,
            oidc_jwks_url="",
            tenant_claim=stage.tenant_claim or TENANT_CLAIM,
            project_claim=stage.project_claim or PROJECT_CLAIM,
            **_roles(stage),
        )


def _roles(stage: Stage) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in ("role_claim", "project_admins", "tenant_admins")}
