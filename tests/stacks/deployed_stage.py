"""A deployed stage, changed stack by stack as CloudFormation changes it, and what it would refuse on the way.

Source: docs.aws.amazon.com/AWSCloudFormation, "Fn::ImportValue", "Fn::GetStackOutput", "Update behaviors of stack resources".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

Document = Mapping[str, Any]
Documents = Mapping[str, Document]
"""The templates of a stage by their stacks' short names, in the order of their deployment."""

REGION: Final = "us-east-1"
UNIQUE: Final[Mapping[str, Callable[[Document], list[Any]]]] = {
    "AWS::CloudFront::CachePolicy": lambda has: [has["CachePolicyConfig"]["Name"]],
    "AWS::CloudFront::Function": lambda has: [has["Name"]],
    "AWS::CloudFront::OriginAccessControl": lambda has: [has["OriginAccessControlConfig"]["Name"]],
    "AWS::CloudFront::ResponseHeadersPolicy": lambda has: [has["ResponseHeadersPolicyConfig"]["Name"]],
    "AWS::CloudWatch::Alarm": lambda has: [has["AlarmName"]],
    "AWS::CloudWatch::Dashboard": lambda has: [has["DashboardName"]],
    "AWS::CodeBuild::Project": lambda has: [has["Name"]],
    "AWS::CodeDeploy::Application": lambda has: [has["ApplicationName"]],
    "AWS::Cognito::UserPoolDomain": lambda has: [has["Domain"], has["UserPoolId"]],
    "AWS::EC2::Subnet": lambda has: [[has["VpcId"], has["CidrBlock"]]],
    "AWS::EC2::VPCGatewayAttachment": lambda has: [has["VpcId"]],
    "AWS::ECR::Repository": lambda has: [has["RepositoryName"]],
    "AWS::ECS::Cluster": lambda has: [has["ClusterName"]],
    "AWS::Lambda::Alias": lambda has: [[has["FunctionName"], has["Name"]]],
    "AWS::Lambda::Function": lambda has: [has["FunctionName"]],
    "AWS::Logs::LogGroup": lambda has: [has["LogGroupName"]],
    "AWS::SQS::Queue": lambda has: [has["QueueName"]],
    "AWS::Scheduler::ScheduleGroup": lambda has: [has["Name"]],
    "AWS::StepFunctions::StateMachine": lambda has: [has["StateMachineName"]],
}
"""What no two resources of a type may have at the same time: a name, an address, or the resource that has only one of them."""
RETAINED: Final = ("Retain", "RetainExceptOnCreate")
IMPORT: Final = "Fn::ImportValue"
READ: Final = "Fn::GetStackOutput"
FUNCTION: Final = "AWS::Lambda::Function"
VERSION: Final = "AWS::Lambda::Version"
_REFERENCES: Final = ("Ref", "Fn::GetAtt")


class Stack(NamedTuple):
    """One deployed stack: its template, and the generation of each resource, which grows when it is replaced."""

    document: Document
    generations: Mapping[str, int]


class DeployedStage:
    """The stacks of a stage in an account, and the names that their resources hold."""

    def __init__(self, documents: Documents) -> None:
        """Deploy the first templates, which meet nothing."""
        self.stacks: dict[str, Stack] = {}
        self.held: dict[tuple[str, str], tuple[str, str]] = {}
        refusals = self.deploy(documents)
        assert refusals == []

    def deploy(self, documents: Documents) -> list[str]:
        """Deploy the templates in their order, and return what CloudFormation would refuse, and who would keep a former value.

        A stack that the templates lack stays as it is.
        """
        before = {name: stack.document for name, stack in self.stacks.items()}
        refusals: list[str] = []
        for name, document in documents.items():
            refusals += [f"{name}: {refusal}" for refusal in self._update(name, document)]
        return refusals + list(self._stale(before, documents))

    def _update(self, name: str, document: Document) -> Iterator[str]:
        former = self.stacks.get(name, Stack({"Resources": {}}, {}))
        replaced = _replaced(former.document["Resources"], document["Resources"])
        yield from self._exports(name, former.document, document, replaced)
        yield from self._reads(document)
        yield from self._names(name, former, document, replaced)
        generations = {
            logical_id: former.generations.get(logical_id, 0) + (logical_id in replaced)
            for logical_id in document["Resources"]
        }
        self.stacks[name] = Stack(document, generations)

    def _exports(self, name: str, former: Document, document: Document, replaced: set[str]) -> Iterator[str]:
        """Refuse to remove or to change an export that another stack imports, and to import one that does not exist."""
        imported = {
            export
            for other, stack in self.stacks.items()
            if other != name
            for export in _found(stack.document, IMPORT)
        }
        now = exports(document)
        for export, value in exports(former).items():
            if export in imported and (now.get(export) != value or set(_targets(value)) & replaced):
                yield f"export {export} is imported, and would vanish or change"
        known = {export for other, stack in self.stacks.items() for export in exports(stack.document)}
        yield from (
            f"import of {export}, which does not exist" for export in set(_found(document, IMPORT)) - known
        )

    def _reads(self, document: Document) -> Iterator[str]:
        """Refuse to read an output that does not exist, or into a property that is set once.

        CloudFormation reads an output while it updates the reader, so that it would replace the resource (aws-cdk#38829).
        """
        for read in _found(document, READ):
            producer = self.stacks.get(_producer(read))
            if producer is None or read["OutputName"] not in producer.document.get("Outputs", {}):
                yield f"output {read['OutputName']}, which does not exist"
        for logical_id, resource in document["Resources"].items():
            for key, value in _create_only(resource).items():
                if next(_found(value, READ), None):
                    yield f"{logical_id}.{key} would be replaced: it reads an output"

    def _stale(self, before: Documents, documents: Documents) -> Iterator[str]:
        """Report who keeps the former value of a replaced resource: a resource, or a version of a function, with the same text.

        CloudFormation updates what differs in the template, and its text names an output, not the value.
        """
        replaced = {
            name: _replaced(before[name]["Resources"], documents[name]["Resources"])
            for name in before.keys() & documents.keys()
        }
        for name, gone in replaced.items():
            for logical_id, resource in documents[name]["Resources"].items():
                known = before[name]["Resources"].get(logical_id)
                read = [
                    target
                    for one in _found(resource, READ)
                    for target in _targets(documents[_producer(one)]["Outputs"][one["OutputName"]])
                    if target in replaced.get(_producer(one), ())
                ]
                if read and known == resource:
                    yield f"{name}: {logical_id} reads {read[0]}, which is replaced, and is not updated"
                own = [target for target in _targets(resource.get("Properties", {})) if target in gone]
                if own and resource["Type"] == FUNCTION:
                    versions = [_versions(one[name], logical_id) for one in (before, documents)]
                    if versions[0] == versions[1]:
                        yield f"{name}: {logical_id} has {own[0]}, which is replaced, and gets no new version"

    def _names(self, name: str, former: Stack, document: Document, replaced: set[str]) -> Iterator[str]:
        """Refuse a new resource with a name that another one still has: CloudFormation deletes last."""
        gone = former.document["Resources"].keys() - document["Resources"].keys()
        taken: dict[tuple[str, str], tuple[str, str]] = {}
        for logical_id, resource in document["Resources"].items():
            known = former.document["Resources"].get(logical_id)
            if known and known["Type"] != resource["Type"]:
                yield f"{logical_id} changes its type"
            me = (name, logical_id)
            for unique in _unique(resource, former.generations, replaced):
                if (holder := self.held.get(unique)) and (holder != me or logical_id in replaced):
                    yield f"{logical_id} takes {unique[1]}, which {holder[1]} of {holder[0]} still has"
                taken[unique] = me
        ended = {
            (name, one)
            for one in gone | replaced
            if former.document["Resources"][one].get("DeletionPolicy") not in RETAINED
        }
        self.held = {key: one for key, one in self.held.items() if one not in ended} | taken


def exports(document: Document) -> dict[str, Any]:
    """Return the values of the exports of a template by their names."""
    outputs = document.get("Outputs", {}).values()
    return {output["Export"]["Name"]: output["Value"] for output in outputs if "Export" in output}


def reduced(document: Document) -> dict[str, Any]:
    """Return the part of a template that later templates may collide with: exports, imports, and unique resources."""
    shared = {target for value in exports(document).values() for target in _targets(value)}
    return {
        "Outputs": {key: one for key, one in document.get("Outputs", {}).items() if "Export" in one},
        "Metadata": {name: {IMPORT: name} for name in sorted(set(_found(document, IMPORT)))},
        "Resources": {
            logical_id: {
                **{key: one for key, one in resource.items() if key in ("Type", "DeletionPolicy")},
                "Properties": _unique_properties(resource) | _create_only(resource),
            }
            for logical_id, resource in document["Resources"].items()
            if resource["Type"] in UNIQUE or logical_id in shared
        },
    }


def _unique_properties(resource: Document) -> dict[str, Any]:
    """Return the top-level properties of which `UNIQUE` reads a part; of a nested one its name alone."""
    if resource["Type"] not in UNIQUE:
        return {}
    values = [
        part
        for one in UNIQUE[resource["Type"]](resource["Properties"])
        for part in (one if isinstance(one, list) else [one])
    ]
    return {
        key: one if one in values else {"Name": one["Name"]}
        for key, one in resource["Properties"].items()
        if one in values or (isinstance(one, dict) and one.get("Name") in values)
    }


def _unique(
    resource: Document, generations: Mapping[str, int], replaced: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield what the resource has alone; the addresses in a replaced network are those of another network."""
    if resource["Type"] in UNIQUE:
        for value in UNIQUE[resource["Type"]](resource["Properties"]):
            of = [f"{one}#{generations.get(one, 0) + (one in replaced)}" for one in _targets(value)]
            yield resource["Type"], json.dumps([value, of])


def _replaced(former: Document, resources: Document) -> set[str]:
    """Return the resources that are replaced: by another value, or because they refer to one that is replaced."""
    kept = {one for one in resources if one in former and former[one]["Type"] == resources[one]["Type"]}
    fixed = {one: _create_only(resources[one]) for one in kept}
    found = {one for one in kept if fixed[one] != _create_only(former[one])}
    while more := {one for one in kept - found if found & set(_targets(fixed[one]))}:
        found |= more
    return found


def _producer(read: Document) -> str:
    return str(read["StackName"]).rpartition("-")[2]


def _versions(document: Document, function: str) -> set[str]:
    return {
        logical_id
        for logical_id, resource in document["Resources"].items()
        if resource["Type"] == VERSION and resource["Properties"]["FunctionName"] == {"Ref": function}
    }


def _create_only(resource: Document) -> dict[str, Any]:
    """Return the properties whose change replaces the resource."""
    keys = _create_only_keys(resource["Type"])
    return {key: value for key, value in resource.get("Properties", {}).items() if key in keys}


@cache
def _create_only_keys(kind: str) -> frozenset[str]:
    """Return the properties of a type that AWS sets once. Source: the schemas of the resource providers, in cfn-lint."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
    return frozenset(path.split("/")[2] for path in schema.get("createOnlyProperties", ()))


def _targets(value: Any) -> Iterator[str]:
    """Yield the resources that a value refers to."""
    for key in _REFERENCES:
        for found in _found(value, key):
            yield found if isinstance(found, str) else found[0]


def _found(value: Any, key: str) -> Iterator[Any]:
    """Yield the argument of each call of an intrinsic function."""
    if isinstance(value, Mapping):
        if len(value) == 1 and key in value:
            yield value[key]
            return
        children = list(value.values())
    else:
        children = value if isinstance(value, list) else []
    for child in children:
        yield from _found(child, key)
