"""The versions of a stage's parts, for the report."""

from __future__ import annotations

from stepline.local.proof.obstacle import find_obstacle
from stepline.local.proof.proof_report import StageVersions
from stepline.local.proof.proved_stage import ProvedStage
from stepline.local.proof.stage_function import functions_by_module, read_live


def read_versions(stage: ProvedStage) -> StageVersions:
    """Return the versions that serve; if they cannot be read, `unknown` is the reason."""
    try:
        machine = stage.aws("stepfunctions").describe_state_machine(stateMachineArn=stage.machine_arn)
        live = {module: read_live(stage, name) for module, name in functions_by_module(stage).items()}
    except Exception as error:  # noqa: BLE001 - the report has the reason
        return StageVersions(unknown=find_obstacle(error) or f"{type(error).__name__}: {error}")
    return StageVersions(
        machine=machine["name"],
        revision=machine.get("revisionId", ""),
        functions={
            module: f"{found['Version']} ({found.get('Runtime', 'no runtime')})"
            for module, found in sorted(live.items())
        },
    )
