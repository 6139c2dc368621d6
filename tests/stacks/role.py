"""The roles of a synthesised stage as short lines: who, may what, on what, on which condition."""

import re

CONDITIONS = {
    "ForAllValues:StringLike dynamodb:LeadingKeys": "keys",
    "StringLike s3:prefix": "prefix",
    "ArnEquals ecs:cluster": "cluster",
    "StringEquals iam:PassedToService": "service",
}
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "here", "AWS::AccountId": "us", "AWS::URLSuffix": "aws"}
HASH = re.compile(r"[0-9A-F]{8}$")
SUBSTITUTED = re.compile(r"\$\{([\w:]+)\}")
ASSET = re.compile(r"cdk-hnb659fds-assets-us-here/[0-9a-f]{64}\.zip")
"""An archive of the deployment, named by its content."""
ARN = re.compile(r"arn:aws:([a-z0-9-]+):[^:]*:[^:]*:(.+)")


class Roles:
    """Every role of every stack, by the name of its construct."""

    def __init__(self, documents):
        self._documents = documents
        self.trusts, self.statements = {}, {}
        for stack, document in self._documents.items():
            for logical_id, resource in document["Resources"].items():
                if resource["Type"] == "AWS::IAM::Role":
                    self._take_role(stack, logical_id, resource["Properties"])
        for stack, document in self._documents.items():
            for resource in document["Resources"].values():
                if resource["Type"] == "AWS::IAM::Policy":
                    self._take_policy(stack, resource["Properties"])

    def _take_role(self, stack, logical_id, role):
        assert not role.get("ManagedPolicyArns"), logical_id
        assert not role.get("Policies"), logical_id
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        name = name_of(logical_id)
        assert name not in self.trusts
        ((_, holder),) = trust["Principal"].items()
        self.trusts[name] = self.text(stack, holder)
        self.statements[name] = []

    def _take_policy(self, stack, policy):
        for role in policy["Roles"]:
            self.statements[name_of(role["Ref"])] += [
                (stack, statement) for statement in policy["PolicyDocument"]["Statement"]
            ]

    def lines(self, role):
        """One line a statement, sorted."""
        return sorted(self._line(stack, statement) for stack, statement in self.statements[role])

    def actions(self, role):
        return {action for _, statement in self.statements[role] for action in listed(statement["Action"])}

    def resources(self, role, action):
        """The short names of what an action may be done to."""
        return {
            short(self.text(stack, resource))
            for stack, statement in self.statements[role]
            if action in listed(statement["Action"])
            for resource in listed(statement["Resource"])
        }

    def _line(self, stack, statement):
        assert statement["Effect"] == "Allow"
        resources = sorted(short(self.text(stack, one)) for one in listed(statement["Resource"]))
        line = f"{' '.join(sorted(listed(statement['Action'])))} → {' '.join(resources)}"
        for operator, keys in sorted(statement.get("Condition", {}).items()):
            for key, values in sorted(keys.items()):
                name = CONDITIONS.get(f"{operator} {key}", f"{operator} {key}")
                line += f" [{name}: {' '.join(short(self.text(stack, one)) for one in listed(values))}]"
        return line

    def text(self, stack, value):
        """A value of a template with names in place of references, those to other stacks too."""
        match value:
            case str():
                return value
            case {"Fn::Sub": str() as pattern}:
                return SUBSTITUTED.sub(lambda match: PSEUDO.get(match[1], f"<{match[1]}>"), pattern)
            case {"Ref": name}:
                return PSEUDO.get(name) or f"<{name_of(name)}>"
            case {"Fn::GetAtt": [name, attribute]}:
                return f"<{name_of(name)}>" if attribute == "Arn" else f"<{name_of(name)}.{attribute}>"
            case {"Fn::Join": [between, parts]}:
                return between.join(self.text(stack, part) for part in parts)
            case {"Fn::GetStackOutput": {"StackName": other, "OutputName": output}}:
                producer = other.rpartition("-")[2]
                return self.text(producer, self._documents[producer]["Outputs"][output]["Value"])
        raise ValueError(f"what is {value}?")


def listed(value):
    return value if isinstance(value, list) else [value]


def name_of(logical_id):
    return HASH.sub("", logical_id)


def short(text):
    """An ARN without partition, region and account, and without the hash of an archive."""
    found = ARN.fullmatch(text)
    return ASSET.sub("<assets>/<hash>.zip", f"{found[1]}:{found[2]}" if found else text)
