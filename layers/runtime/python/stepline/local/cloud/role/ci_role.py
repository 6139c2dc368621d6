"""A role by which CI deploys one stage: a template of CloudFormation, with the trust in the CI service's tokens.

The services sign a token for each run, whose subject names the repository and the branch or environment.
Source: docs.github.com, "Configuring OpenID Connect in Amazon Web Services"; docs.gitlab.com, "Configure OpenID Connect in
AWS"; support.atlassian.com, "Deploy on AWS using Bitbucket Pipelines OpenID Connect"; circleci.com/docs, "OIDC tokens".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from stepline.errors import InputError
from stepline.local.cloud.role.caller_rights import StagePlace, deploy_statements

_ID: Final = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_REF: Final = re.compile(r"[\w.][\w./-]{0,199}", re.ASCII)
"""A branch or an environment; no `*`, which would trust others."""
SESSION_S: Final = 3600


class CiService(NamedTuple):
    """A CI service: the issuer of its tokens, their audience, and their subject for a branch and for an environment.

    `form` is how `--repository` is written, `pattern` reads it; a missing subject is "".
    """

    form: str
    pattern: re.Pattern[str]
    issuer: str
    audience: str
    branch: str = ""
    environment: str = ""


TOKENS: Final[Mapping[str, CiService]] = MappingProxyType(
    {
        "github": CiService(
            form="OWNER/NAME",
            pattern=re.compile(r"(?P<path>[\w.-]+/[\w.-]+)", re.ASCII),
            issuer="token.actions.githubusercontent.com",
            audience="sts.amazonaws.com",
            branch="repo:{path}:ref:refs/heads/{ref}",
            environment="repo:{path}:environment:{ref}",
        ),
        "gitlab": CiService(
            form="GROUP/PROJECT",
            pattern=re.compile(r"(?P<path>[\w.-]+(/[\w.-]+)+)", re.ASCII),
            issuer="gitlab.com",
            audience="sts.amazonaws.com",
            branch="project_path:{path}:ref_type:branch:ref:{ref}",
        ),
        "bitbucket": CiService(
            form="WORKSPACE/WORKSPACE_UUID/REPOSITORY_UUID",
            pattern=re.compile(rf"(?P<workspace>[\w-]+)/(?P<own>{_ID})/(?P<repo>{_ID})", re.ASCII),
            issuer="api.bitbucket.org/2.0/workspaces/{workspace}/pipelines-config/identity/oidc",
            audience="ari:cloud:bitbucket::workspace/{own}",
            environment="{{{repo}}}:{{{ref}}}:*",
        ),
        "circleci": CiService(
            form="ORGANIZATION_ID/PROJECT_ID",
            pattern=re.compile(rf"(?P<org>{_ID})/(?P<project>{_ID})", re.ASCII),
            issuer="oidc.circleci.com/org/{org}",
            audience="{org}",
            branch="org/{org}/project/{project}/user/*/vcs-origin/*/vcs-ref/refs/heads/{ref}",
        ),
    }
)


class CiTrust(NamedTuple):
    """The issuer, without its scheme, and the audience and subject of the tokens that are trusted."""

    issuer: str
    audience: str
    subject: str


def read_trust(service: str, repository: str, branch: str, environment: str) -> CiTrust:
    """Return the trust in one branch or environment of a repository. Raises InputError `bad_choice`."""
    found = TOKENS[service]
    parts = found.pattern.fullmatch(repository)
    if parts is None:
        raise InputError(f"--repository of {service} is {found.form}, not {repository!r}", code="bad_choice")
    if bool(branch) == bool(environment):
        raise InputError("a role is for a --branch or for an --environment", code="bad_choice")
    subject, option, ref = (
        (found.branch, "--branch", branch) if branch else (found.environment, "--environment", environment)
    )
    if not subject:
        raise InputError(
            f"tokens of {service} do not name it: use the other one of --branch and --environment, not {option}",
            code="bad_choice",
        )
    if not _REF.fullmatch(ref):
        raise InputError(f"{option} {ref!r} is not one name", code="bad_choice")
    named = parts.groupdict()
    return CiTrust(
        issuer=found.issuer.format(**named),
        audience=found.audience.format(**named),
        subject=subject.format(**named, ref=ref),
    )


def render_ci_role(place: StagePlace, trust: CiTrust) -> str:
    """Return the template as JSON: the role, and the issuer's provider unless the account has one."""
    match = "StringLike" if "*" in trust.subject else "StringEquals"
    audience = {"StringEquals": {f"{trust.issuer}:aud": trust.audience}}
    subject = {f"{trust.issuer}:sub": trust.subject}
    provider = {"Fn::If": ["MakesProvider", {"Ref": "Provider"}, {"Ref": "ProviderArn"}]}
    template: dict[str, Any] = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Stepline: the role by which CI deploys stage {place.stage}.",
        "Parameters": {
            "ProviderArn": {
                "Type": "String",
                "Default": "",
                "Description": f"The account's OIDC provider for https://{trust.issuer}, if it has one.",
            }
        },
        "Conditions": {"MakesProvider": {"Fn::Equals": [{"Ref": "ProviderArn"}, ""]}},
        "Resources": {
            "Provider": {
                "Type": "AWS::IAM::OIDCProvider",
                "Condition": "MakesProvider",
                # Roles of other stages may trust it, too.
                "DeletionPolicy": "RetainExceptOnCreate",
                "UpdateReplacePolicy": "Retain",
                "Properties": {"Url": f"https://{trust.issuer}", "ClientIdList": [trust.audience]},
            },
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {
                    "MaxSessionDuration": SESSION_S,
                    "AssumeRolePolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [
                            {
                                "Effect": "Allow",
                                "Action": "sts:AssumeRoleWithWebIdentity",
                                "Principal": {"Federated": provider},
                                "Condition": {**audience, match: {**audience.get(match, {}), **subject}},
                            }
                        ],
                    },
                    "Policies": [
                        {
                            "PolicyName": "deploy",
                            "PolicyDocument": {
                                "Version": "2012-10-17",
                                "Statement": deploy_statements(place),
                            },
                        }
                    ],
                },
            },
        },
        "Outputs": {"RoleArn": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}}},
    }
    return json.dumps(template, indent=2)
