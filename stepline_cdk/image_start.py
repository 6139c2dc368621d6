"""The function that starts a build of the image; the build answers CloudFormation itself.

A failed build is no failed deployment: the stage has an agent, whose programs end with an error until the image is built.

Its source is inlined in the template, so it is small and imports nothing but the runtime.
"""

import json
import urllib.request

import boto3


def handler(event: dict, context: object) -> None:  # type: ignore[type-arg]  # noqa: ARG001 - the runtime's signature
    """Start a build for a new tag. Deleting needs none: the images go with their repository."""
    if event["RequestType"] == "Delete":
        _answer(event, _render(event, ""))
        return
    variables = {
        "TAG": event["ResourceProperties"]["Tag"],
        "ANSWER_URL": event["ResponseURL"],
        "ON_SUCCESS": _render(event, "built"),
        "ON_FAILURE": _render(event, "the build failed: see its log, /stepline/<stage>/image-build"),
    }
    try:
        boto3.client("codebuild").start_build(
            projectName=event["ResourceProperties"]["Project"],
            environmentVariablesOverride=[
                {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
            ],
        )
    except Exception as error:
        # Without an answer CloudFormation would wait for its timeout.
        _answer(event, _render(event, f"the build was not started: {error}"))
        raise


def _render(event: dict, result: str) -> str:  # type: ignore[type-arg]  # what the runtime hands over
    return json.dumps(
        {
            "Status": "SUCCESS",
            "PhysicalResourceId": event["LogicalResourceId"],
            "StackId": event["StackId"],
            "RequestId": event["RequestId"],
            "LogicalResourceId": event["LogicalResourceId"],
            "Data": {"Result": result},
        }
    )


def _answer(event: dict, body: str) -> None:  # type: ignore[type-arg]  # as above
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's own address
        event["ResponseURL"], data=body.encode(), method="PUT", headers={"Content-Type": ""}
    )
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - as above
