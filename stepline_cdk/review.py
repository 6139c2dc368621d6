"""AWS's best-practice rules, run over the templates at synthesis; an unacknowledged finding fails it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
import jsii
from cdk_nag import AwsSolutionsChecks

from stepline_cdk.acknowledgement import ACKNOWLEDGED, OLDER_PYTHON, WARNINGS, Acknowledgement
from stepline_cdk.bytecode import PYTHON_VERSION

PACK: Final = "AwsSolutions"


@dataclass(frozen=True)
class Finding:
    """One rule's finding on one construct."""

    id: str
    place: str


def check(app: cdk.App, python: str) -> Review:
    """Add the rules to a synthesis, whose functions run this Python, and return the reviewer of their findings."""
    review = Review(app, ACKNOWLEDGED if python == PYTHON_VERSION else (*ACKNOWLEDGED, OLDER_PYTHON))
    validations = cdk.Validations.of(app)
    validations.add_plugins(review)
    validations.acknowledge(*(cdk.Acknowledgment(id=name, reason=why) for name, why in WARNINGS.items()))
    return review


@jsii.implements(cdk.IPolicyValidationPlugin)
class Review:
    """The rules of the pack, without acknowledged findings. `used` are the rows that matched something."""

    def __init__(self, app: cdk.App, acknowledged: Iterable[Acknowledgement]) -> None:
        """Store the list; the templates are checked when they are written."""
        self._app = app
        self._pack = AwsSolutionsChecks(app)
        self._acknowledged = tuple(acknowledged)
        self.used: set[tuple[str, str]] = set()
        self.open: list[Finding] = []

    @property
    def name(self) -> str:
        return PACK

    @property
    def version(self) -> str | None:
        return None

    @property
    def rule_ids(self) -> list[str] | None:
        return None

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        """Report the remaining findings of the pack; called by the CDK when all templates are written."""
        del context
        report = self._pack.validate_scope(self._app)
        left = [
            cdk.PolicyViolation(
                rule_name=violation.rule_name,
                description=violation.description,
                severity=violation.severity,
                violating_resources=resources,
            )
            for violation in report.violations
            if (resources := [one for one in violation.violating_resources if self._is_open(violation, one)])
        ]
        return cdk.PolicyValidationPluginReport(success=not left, violations=left)

    def _is_open(self, violation: cdk.PolicyViolation, resource: cdk.PolicyViolatingResource) -> bool:
        finding = Finding(
            id=violation.rule_name.removeprefix(f"{PACK}-"), place=place_of(resource.construct_path or "")
        )
        rows = {
            (item.finding, finding.place)
            for item in self._acknowledged
            if finding.place in item.places and item.matches(finding.id)
        }
        self.used |= rows
        if not rows:
            self.open.append(finding)
        return not rows


def place_of(path: str) -> str:
    """Return a construct's path without app and stage: `stepline-prod-loop/Act` is `loop/Act`."""
    stack, _, rest = path.partition("/")
    return f"{stack.rpartition('-')[2]}/{rest}".removesuffix("/Resource")
