"""AWS's best-practice rules: what is accepted in a stage is acknowledged on an agent's own constructs, for cdk-nag to read.

cdk-nag compares whole findings, so those of policies are spelled here as it spells them; what your app adds to a role is
not acknowledged. Source: github.com/cdklabs/cdk-nag, "Acknowledging a Rule", and its `flatten-cfn-reference`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import IConstruct, IValidation

from stepline_cdk.acknowledgement import ACKNOWLEDGED, OLDER_PYTHON, Acknowledgement
from stepline_cdk.bytecode import PYTHON_VERSION

PACK: Final = "AwsSolutions"
_WILDCARD: Final = "IAM5"
_BUCKET: Final = "…Artifacts…"
"""The bucket of a stage in findings."""


def acknowledge(parts: Mapping[str, IConstruct], python: str, bucket: s3.IBucket | None = None) -> None:
    """Acknowledge on each construct below the parts, by their names, what is accepted there; of an owner's bucket too."""
    rows = ACKNOWLEDGED if python == PYTHON_VERSION else (*ACKNOWLEDGED, OLDER_PYTHON)
    if bucket is not None:
        stack = cdk.Stack.of(next(iter(parts.values())))
        rows = tuple(_of_bucket(row, bucket, stack) for row in rows)
    for row in rows:
        for place in row.places:
            part, _, path = place.partition("/")
            construct = _find(parts[part], path) if part in parts else None
            if construct is not None:
                for finding in _findings(row, construct):
                    rule = cdk.Acknowledgment(id=f"{PACK}-{finding}", reason=row.reason)
                    cdk.Validations.of(construct).acknowledge(rule)


@jsii.implements(IValidation)
class LateAcknowledgement:
    """Acknowledges again when the app is checked: only then a bucket of another stack is spelled as that stack's export."""

    def __init__(self, parts: Mapping[str, IConstruct], python: str, bucket: s3.IBucket) -> None:
        """Store what is acknowledged then."""
        self._parts, self._python, self._bucket = parts, python, bucket

    def validate(self) -> list[str]:
        """Return no errors; called by the CDK between the references and the templates."""
        acknowledge(self._parts, self._python, self._bucket)
        return []


def _of_bucket(row: Acknowledgement, bucket: s3.IBucket, stack: cdk.Stack) -> Acknowledgement:
    arn = _flatten(stack.resolve(bucket.bucket_arn))
    return replace(row, finding=row.finding.replace(_BUCKET, arn))


def _find(construct: IConstruct, path: str) -> IConstruct | None:
    found: IConstruct | None = construct
    for word in path.split("/"):
        found = found.node.try_find_child(word) if found is not None else None
    return found


def _findings(row: Acknowledgement, construct: IConstruct) -> Iterable[str]:
    """Return the findings that a row accepts: of a policy those that it has, else its only one."""
    if not row.finding.startswith(_WILDCARD):
        return [row.finding]
    assert isinstance(construct, iam.Policy), construct.node.path
    document = cdk.Stack.of(construct).resolve(construct.document)
    found = (f"{_WILDCARD}[Resource::{text}]" for text in _resources(document) if "*" in text)
    return sorted({one for one in found if row.matches(one)})


def _resources(document: Mapping[str, Any]) -> Iterator[str]:
    for statement in document["Statement"]:
        resource = statement["Resource"]
        yield from map(_flatten, resource if isinstance(resource, list) else [resource])


def _flatten(node: Any) -> str:
    """Return the text that a finding has in the place of a reference."""
    match node:
        case str():
            return node.replace("${", "<").replace("}", ">")
        case {"Fn::Join": [delimiter, items]}:
            return str(delimiter).join(map(_flatten, items))
        case {"Fn::Sub": text} | {"Fn::ImportValue": text}:
            return _flatten(text)
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{_flatten(resource)}.{_flatten(attribute)}>"
        case {"Ref": name}:
            return f"<{_flatten(name)}>"
        case _:
            return json.dumps(node, separators=(",", ":"))
