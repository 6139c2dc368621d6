"""`stepline event-source`: print the settings for a service that sends events to the local stage."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from stepline.errors import DependencyError
from stepline.local.command.argument import json_option
from stepline.local.stage.deployed import LocalStage, client, credentials

OUTPUTS = {
    "EVENT_SOURCE_ROLE_ARN": "EventSourceRoleArn",
    "EVENT_SOURCE_ENVIRONMENT": "EventSourceEnvironment",
}


@click.command("event-source")
@json_option
def event_source(as_json: bool) -> None:
    """Print the settings of a service that sends events.

    The service sends them to the local stage. Use the lines in a shell: eval "$(stepline event-source)".
    docs/how-to/send-events.md has an example.
    """
    from stepline.local.caller import find_stage

    found = read_environment(find_stage())
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def read_environment(stage: LocalStage) -> dict[str, str]:
    """Return the variables for a service: the emulator's address, the role and the settings.

    Raises DependencyError.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        (stack,) = client("cloudformation", stage).describe_stacks(StackName=stage.stack)["Stacks"]
    except (BotoCoreError, ClientError) as error:
        raise DependencyError(f"the local stage cannot be read: {error}", code="local_service") from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    place = {
        "AWS_ENDPOINT_URL": stage.endpoint,
        "AWS_DEFAULT_REGION": stage.region,
        **credentials(Path(stage.home)),
    }
    return place | {name: outputs[f"{stage.prefix}{output}"] for name, output in OUTPUTS.items()}
