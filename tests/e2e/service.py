"""Another service of the account, as a process of its own: it takes the role for events and uses the library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from stepline.local.stage.deployed import client, credentials

STACK = "stepline-local-loop"
ROLE, SETTINGS = "EventSourceRoleArn", "EventSourceEnvironment"
PROGRAM = """\
import json, sys
from stepline.bootstrap.event_source import Attachment, event_source
from stepline.errors import SteplineError
from stepline.settings import Settings

asked = json.load(sys.stdin)
settings = Settings.from_env(asked["settings"])
source = event_source(settings, source=asked["source"], role_arn=asked["role_arn"])
where, event = asked["where"], asked["event"]
try:
    files = [
        source.store_attachment(**where, body=body.encode(), filename=name, mime="text/plain")
        for name, body in asked["files"].items()
    ]
    submitted = source.submit_event(**where, **event, attachments=files)
    answer = {field: getattr(submitted, field) for field in submitted.__struct_fields__}
except SteplineError as error:
    answer = {"error": error.reason, **error.context}
print(json.dumps(answer))
"""


class Service:
    """Speaks as `source` for one user of the local stage."""

    def __init__(self, deployed, user, *, source="billing"):
        self._deployed, self._user, self._source = deployed, user, source
        outputs = read_outputs(deployed)
        self._role_arn, self._settings = outputs[ROLE], json.loads(outputs[SETTINGS])

    def submit(self, conversation, kind, message_id, *, files=(), **event):
        """Submit an event; return its fate, or the code with which it was refused."""
        where = {"tenant": "local", "project": "default", "conversation": conversation}
        asked = {
            "settings": self._settings,
            "source": self._source,
            "role_arn": self._role_arn,
            "where": where,
            "event": {"user": self._user, "kind": kind, "message_id": message_id, **event},
            "files": dict(files),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(asked),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"the service failed\n{done.stderr}")
        return json.loads(done.stdout)

    def _environment(self):
        """Return the environment of the process: the emulator's address, and credentials that may assume the role."""
        return {
            "AWS_ENDPOINT_URL": self._deployed.endpoint,
            "AWS_DEFAULT_REGION": self._deployed.region,
            **credentials(Path(self._deployed.home)),
        }


def read_outputs(deployed):
    """Return the outputs of the loop's stack."""
    (stack,) = client("cloudformation", deployed).describe_stacks(StackName=STACK)["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
