"""Requirements of an account for deploying a stage into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from stepline.adapters.anthropic.family import bare_name, family_of
from stepline.adapters.provider.wire import plan_roles
from stepline.bootstrap.choice import provider_of
from stepline.errors import InputError
from stepline.local.check import Check, failed, judged, passed, warned
from stepline.local.cloud.account import CREDENTIALS_REMEDY, AwsAccount, aws_error_code, look
from stepline.local.cloud.checks.capacity import check_concurrency
from stepline.local.cloud.deploy_failure import WITHOUT_BUILDS, WITHOUT_PAGE
from stepline.local.counted import counted
from stepline.loop.summarise import PREFIX_ROLE, SUMMARY_ROLE
from stepline.loop.title import ROLE as GATE_ROLE
from stepline.ports.model import (
    DECISION_ROLE,
    DEFAULT_ROLE,
    ModelProvider,
    RoleChoice,
    named_providers,
    split_model,
)
from stepline.settings import KEYED, TABLE, Settings

BOOTSTRAP_PARAMETER: Final = "/cdk-bootstrap/{}/version"
QUALIFIER_KEY: Final = "@aws-cdk/core:bootstrapQualifier"
QUALIFIER: Final = "hnb659fds"
"""The qualifier of a bootstrap that names none."""
BOOTSTRAP_OLDEST: Final = 6
"""The lowest bootstrap version that the templates accept."""

NO_SNAP_START: Final = frozenset({"ap-east-2", "ap-southeast-6"})
"""Taipei and New Zealand."""

ROLES: Final = frozenset({DEFAULT_ROLE, DECISION_ROLE, SUMMARY_ROLE, PREFIX_ROLE, GATE_ROLE})
"""The roles whose models Stepline itself calls; a bundle may have more."""
ROLES_REMEDY: Final = "docs/reference/models.md lists what each model accepts; set it with -c model_roles=…"
UNKNOWN_REMEDY: Final = "ignore this if the bundle uses these roles; docs/reference/models.md has the names"

OWN_MODEL: Final = re.compile(
    r"arn:[^:]+:bedrock:(?P<region>[^:]+):[^:]+:(?P<kind>application-inference-profile|provisioned-model)/"
)
OWN_REMEDY: Final = "aws bedrock list-inference-profiles --type-equals APPLICATION, then -c model_roles=…"
MODEL_PERMISSIONS: Final = "bedrock:ListInferenceProfiles, ListFoundationModels, GetInferenceProfile and GetProvisionedModelThroughput"

PROGRAMS_FEW: Final = 4
ARM_BUILDS: Final = "L-5ED1D25B"
"""The quota of concurrent builds for ARM/Small."""
ARM_REGIONS: Final = frozenset(
    (
        *("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1", "sa-east-1"),
        *("ap-south-1", "ap-northeast-1", "ap-southeast-1", "ap-southeast-2"),
    )
)
"""Regions with builds for arm64. Source: CodeBuild API reference, Fleet, `environmentType`."""


def readiness(
    account: AwsAccount, stage: str, context: Mapping[str, str] | None, *, expected: str = ""
) -> list[Check]:
    """Return all checks, ordered as problems should be fixed; only the first without valid credentials.

    `context` are the stage's choices, None if they are unknown here; `expected` is the account's number, if the stage
    already has one.
    """
    identity = check_identity(account, expected)
    if not identity.ok:
        return [identity]
    chosen = context or {}
    checks: list[Callable[[], Check]] = [
        lambda: check_region(account, stage, chosen),
        lambda: check_bootstrap(account, chosen),
        lambda: check_concurrency(account, stage, chosen),
    ]
    roles = None if context is None else check_roles(chosen)
    if roles is None or roles.ok:
        checks.append(lambda: check_model(account, stage, chosen) if roles else _unknown_model(stage))
    checks += first_checks(account, chosen)
    return [identity, *([roles] if roles else []), *(check() for check in checks)]


def first_checks(account: AwsAccount, context: Mapping[str, str]) -> list[Callable[[], Check]]:
    """Return the checks of what a new account may lack, for the parts that the stage has."""
    image = context.get("exec_image") or "codebuild"
    return [
        *([lambda: check_distributions(account)] if context.get("page") != "false" else []),
        *([lambda: check_builds(account)] if image == "codebuild" else []),
        *([lambda: check_tasks(account, context)] if image != "none" else []),
    ]


def account_id(account: AwsAccount) -> str:
    """Return the account's number. Raises botocore's errors."""
    return str(account.client("sts").get_caller_identity()["Account"])


def check_identity(account: AwsAccount, expected: str = "") -> Check:
    """Check the identity. This call cannot be denied, so every failure is about the credentials."""
    try:
        found = account.client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        return failed("identity", str(error), CREDENTIALS_REMEDY)
    if expected and found["Account"] != expected:
        return failed(
            "identity", f"{found['Arn']}, but the stage is in account {expected}", CREDENTIALS_REMEDY
        )
    return passed("identity", found["Arn"])


def check_region(account: AwsAccount, stage: str, context: Mapping[str, str]) -> Check:
    """Check that the region supports what the stage uses."""
    region = account.region
    if context.get("snap_start") == "true" and region in NO_SNAP_START:
        return failed(
            "region",
            f"{region} has no SnapStart, which stage {stage} needs",
            f"stepline deploy --stage {stage} -c snap_start=false, or another --region",
        )
    if region not in account.session.get_available_regions("lambda"):
        return warned(
            "region",
            f"this boto3 does not know Lambda in {region}",
            "check the spelling of --region; a region younger than this boto3 may work",
        )
    return passed("region", region)


def check_bootstrap(account: AwsAccount, context: Mapping[str, str]) -> Check:
    """Check that the region is bootstrapped for the CDK."""
    name = BOOTSTRAP_PARAMETER.format(context.get(QUALIFIER_KEY, QUALIFIER))

    def question() -> Check:
        remedy = f"cdk bootstrap aws://{account_id(account)}/{account.region}"
        try:
            found = int(account.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if aws_error_code(error) != "ParameterNotFound":
                raise
            return failed("bootstrap", f"{account.region} is not bootstrapped", remedy)
        ready = found >= BOOTSTRAP_OLDEST
        wanted = "" if ready else f", at least {BOOTSTRAP_OLDEST} is needed"
        return judged("bootstrap", ready, f"version {found}{wanted}", remedy)

    return look("bootstrap", "ssm:GetParameter", question)


def check_tasks(account: AwsAccount, context: Mapping[str, str]) -> Check:
    """Check how many programs fit into the account's Fargate quota."""

    def question() -> Check:
        cpus = _quota(account, "fargate", "L-3032A538")
        programs = int(cpus * 1024 // int(context.get("exec_cpu", "1024")))
        detail = f"{cpus:g} vCPU: {counted(programs, 'program')} at once"
        if not programs:
            detail = f"{detail}; -c exec_image=none runs none, a smaller exec_cpu may run one"
        return _enough("fargate", programs >= PROGRAMS_FEW, detail, "fargate --quota-code L-3032A538", 50)

    return look("fargate", "servicequotas:GetServiceQuota", question, vital=False)


def check_builds(account: AwsAccount) -> Check:
    """Check that AWS may build the image of programs in this account and region.

    An account may be refused more than its quota says, which only the first build shows.
    """

    def question() -> Check:
        builds = _quota(account, "codebuild", ARM_BUILDS)
        if not builds:
            return failed(
                "builds",
                "this account may not run a build for arm64, and AWS would build the image of programs",
                f"{WITHOUT_BUILDS}, or {_render_increase(f'codebuild --quota-code {ARM_BUILDS}', 1)}",
            )
        return passed("builds", f"{counted(int(builds), 'build')} for arm64 at once")

    if account.region not in ARM_REGIONS:
        return warned(
            "builds",
            f"CodeBuild may have no builds for arm64 in {account.region}, and AWS would build the image of programs",
            WITHOUT_BUILDS,
        )
    return look("builds", "servicequotas:GetServiceQuota", question, vital=False)


def check_distributions(account: AwsAccount) -> Check:
    """Check that CloudFront serves this account, which only its distributions show."""

    def question() -> Check:
        found = account.client("cloudfront").list_distributions(MaxItems="1")["DistributionList"]
        if found.get("Items") or found.get("Quantity"):
            return passed("cloudfront", "the account has distributions")
        return Check(
            name="cloudfront",
            ok=True,
            note="unknown",
            detail="the account has no distribution, and AWS refuses the first one of an account that it has not verified",
            remedy=f"if that happens, open a case with AWS Support; {WITHOUT_PAGE}",
        )

    return look("cloudfront", "cloudfront:ListDistributions", question, vital=False)


def check_model(account: AwsAccount, stage: str, context: Mapping[str, str]) -> Check:
    """Check that the configured models are available, and that each secret of a provider has a key."""
    rows = TABLE["model_providers"].parse(context.get("model_providers", ""))
    named = named_providers(TABLE["model_roles"].parse(context.get("model_roles", "")))
    arns = [row.secret_arn for row in rows.values() if row.secret_arn]
    found = []
    if context.get("model_provider", "anthropic") in KEYED:
        arn = context.get("model_secret_arn", "")
        if not arn and (not named or "" in named):
            return warned(
                "model",
                "the setting model_secret_arn is missing: every turn will fail",
                f"put the key into a secret, then stepline deploy --stage {stage} -c model_secret_arn=ARN",
            )
        arns = [arn, *arns] if arn else arns
    elif not named or "" in named:
        named = named | {"bedrock"}
    if "bedrock" in named or any(row.signed for row in rows.values()):
        found.append(look("model", MODEL_PERMISSIONS, lambda: _bedrock(account, context)))
    if arns or not found:
        found.append(look("model", "secretsmanager:GetSecretValue", lambda: _secrets(account, arns)))
    return next((check for check in found if not check.ok or check.note), found[0])


def check_roles(context: Mapping[str, str]) -> Check:
    """Check that each role's model accepts its settings. Makes no request."""
    try:
        roles = _roles(context)
    except InputError as error:
        return failed("model roles", str(error), ROLES_REMEDY)
    refused = [
        f"{name}: {text}" for name, role in roles.items() for text in _provider(context).find_refusals(role)
    ]
    if refused:
        return failed("model roles", "; ".join(refused), ROLES_REMEDY)
    if strange := sorted(roles.keys() - ROLES):
        return warned("model roles", f"Stepline does not use the roles {', '.join(strange)}", UNKNOWN_REMEDY)
    return passed("model roles", ", ".join(f"{name} is {role.model}" for name, role in roles.items()))


def _provider(context: Mapping[str, str]) -> ModelProvider:
    """Return the provider of a stage. Raises InputError."""
    fields = ("model_provider", "model_roles", "model_providers")
    return provider_of(Settings.from_env({TABLE[one].variable: context.get(one, "") for one in fields}))


def _roles(context: Mapping[str, str]) -> dict[str, RoleChoice]:
    """Return the roles of a stage. Raises InputError."""
    chosen = TABLE["model_roles"].parse(context.get("model_roles", ""))
    return plan_roles(_provider(context).default_model, chosen)


def _unknown_model(stage: str) -> Check:
    named = stage or "NAME"
    return Check(
        name="model",
        ok=True,
        note="unknown",
        detail=f"the settings of stage {named} are not known here" if stage else "no stage is named",
        remedy=f"a deployment checks it: stepline deploy --stage {named}",
    )


def _secrets(account: AwsAccount, arns: Sequence[str]) -> Check:
    """Check the secrets of the providers' keys."""
    if not arns:
        return passed("model", "its provider needs no key")
    found = [_secret(account, arn) for arn in arns]
    return next((check for check in found if not check.ok), found[0])


def _secret(account: AwsAccount, arn: str) -> Check:
    """Check the secret of the provider's key; its value is never shown."""
    put = f'aws secretsmanager put-secret-value --secret-id {arn} --secret-string "$ANTHROPIC_API_KEY"'
    try:
        text = account.client("secretsmanager").get_secret_value(SecretId=arn).get("SecretString", "")
    except ClientError as error:
        if aws_error_code(error) != "ResourceNotFoundException":
            raise
        return failed(
            "model",
            f"there is no secret {arn}",
            "aws secretsmanager create-secret, then -c model_secret_arn=ARN",
        )
    if not text.strip():
        return failed("model", f"the secret {arn} is empty", put)
    return passed("model", "the secret has a key")


def _bedrock(account: AwsAccount, context: Mapping[str, str]) -> Check:
    """Compare the configured models with those that Bedrock offers in this region."""
    bedrock = account.client("bedrock")
    pages = bedrock.get_paginator("list_inference_profiles").paginate()
    offered = {
        profile["inferenceProfileId"] for page in pages for profile in page["inferenceProfileSummaries"]
    }
    models = bedrock.list_foundation_models()["modelSummaries"]
    offered |= {model["modelId"] for model in models}
    roles = list(_roles(context).values())
    split = [split_model(model) for role in roles for model in (role.model, role.fallback) if model]
    rows = TABLE["model_providers"].parse(context.get("model_providers", ""))
    served = {"bedrock", *(name for name, row in rows.items() if row.signed)}
    if context.get("model_provider", "anthropic") not in KEYED:
        served.add("")
    wanted = {model for provider, model in split if provider in served}
    # Those of the account are not in the lists above.
    missing = sorted({model for model in wanted if not model.startswith("arn:")} - offered)
    if missing:
        return failed(
            "model",
            f"Bedrock in {account.region} does not offer {', '.join(missing)}",
            'aws bedrock list-inference-profiles, then -c model_roles=\'{"*": "ID"}\'',
        )
    if own := _check_own_models(account, roles):
        return own
    return passed(
        "model",
        f"Bedrock offers {', '.join(sorted(wanted))}; the first turn shows whether the account may use it",
    )


def _check_own_models(account: AwsAccount, roles: Iterable[RoleChoice]) -> Check | None:
    """Check the application inference profiles and provisioned throughputs of the roles; None if all can be called.

    Their ARNs do not contain the name of a model, so the role names its family: it decides about the fields of a call.
    """
    named = {(role.model, role.family) for role in roles} | {
        (role.fallback, role.fallback_family) for role in roles
    }
    for arn, family in sorted(named):
        if not (found := OWN_MODEL.match(arn)):
            continue
        if found["region"] != account.region:
            return failed("model", f"{arn} is not in {account.region}, where it would be called", OWN_REMEDY)
        model = _find_model(account, arn, found["kind"])
        if "anthropic." not in model:
            return failed("model", f"{arn} is {model or 'not found'}, no model of Anthropic", OWN_REMEDY)
        if family_of(family) != family_of(model):
            return warned(
                "model",
                f"{arn} is {model}, and its role does not name this family: calls have no defaults of it",
                f'-c model_roles=\'{{"*": {{"model": "{arn}", "family": "{bare_name(model)}"}}}}\'',
            )
    return None


def _find_model(account: AwsAccount, arn: str, kind: str) -> str:
    """Return the id of the model that a profile or a throughput calls; "" if it does not exist."""
    bedrock = account.client("bedrock")
    try:
        if kind == "provisioned-model":
            found = bedrock.get_provisioned_model_throughput(provisionedModelId=arn)["foundationModelArn"]
        else:
            found = bedrock.get_inference_profile(inferenceProfileIdentifier=arn)["models"][0]["modelArn"]
    except ClientError as error:
        if aws_error_code(error) != "ResourceNotFoundException":
            raise
        return ""
    return str(found).rpartition("/")[2]


def _quota(account: AwsAccount, service: str, code: str) -> float:
    quotas = account.client("service-quotas")
    return float(quotas.get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["Value"])


def _enough(name: str, enough: bool, detail: str, quota: str, desired: int) -> Check:
    """Return the result for a quota: `quota` is its service and code, as the AWS CLI expects them."""
    return passed(name, detail) if enough else warned(name, detail, _render_increase(quota, desired))


def _render_increase(quota: str, desired: int) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --service-code {quota} --desired-value {desired}"
    )
