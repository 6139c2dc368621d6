"""A release after this one, for one function of the deployed stage: its handler as it is, but it writes more."""

from __future__ import annotations

import io
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from stepline.local.stage.deployed import LocalStage, client, credentials
from tests.e2e.mode import ALIAS, find_function

LATER = '''
"""A later release within the format: unknown fields in batches, states and steps."""

import msgspec

from lambdas._before.{name} import handler as before
from stepline.adapters.aws import log

encode = log.encode_batch


def encode_more(batch):
    body = msgspec.json.decode(encode(batch))
    body["release"] = "later"
    body["state"] = [*msgspec.to_builtins(batch.state), 1, ["later"], {{"release": "later"}}]
    for entry in body["entries"]:
        entry["release"] = "later"
    return msgspec.json.encode(body)


def handler(event, context):
    return {{**before(event, context), "release": "later"}}


log.encode_batch = encode_more
'''


@contextmanager
def later_releases(stage) -> Iterator[Releases]:
    """Yield what publishes later releases; afterwards the stage is as it was."""
    releases = Releases(stage)
    try:
        yield releases
    finally:
        releases.undo()


class Releases:
    """Functions of a stage whose aliases run a later release."""

    def __init__(self, stage) -> None:
        self._stage = stage
        self._functions = client("lambda", stage.deployed)
        self._before: dict[str, tuple[str, bytes]] = {}

    def publish(self, name: str, source: str = LATER) -> None:
        """Point the alias of a function at a later release; `source` is its handler's module."""
        found = find_function(self._stage, name)
        assert found is not None, name
        function = found["FunctionName"]
        live = self._functions.get_alias(FunctionName=function, Name=ALIAS)["FunctionVersion"]
        url = self._functions.get_function(FunctionName=function, Qualifier=live)["Code"]["Location"]
        package = download(self._stage.deployed, url)
        self._before[function] = (live, package)
        self._publish(function, repack(package, name, source))

    def undo(self) -> None:
        for function, (live, package) in self._before.items():
            version = self._functions.get_alias(FunctionName=function, Name=ALIAS)["FunctionVersion"]
            self._functions.update_alias(FunctionName=function, Name=ALIAS, FunctionVersion=live)
            self._functions.update_function_code(FunctionName=function, ZipFile=package)
            if version != live:
                self._functions.delete_function(FunctionName=function, Qualifier=version)

    def _publish(self, function: str, package: bytes) -> None:
        made = self._functions.update_function_code(FunctionName=function, ZipFile=package, Publish=True)
        self._functions.update_alias(FunctionName=function, Name=ALIAS, FunctionVersion=made["Version"])


def download(deployed: LocalStage, url: str) -> bytes:
    """Return a package. Unlike AWS's, the emulator's address of it only looks as if it were signed: we sign it."""
    asked, key = AWSRequest("GET", url.partition("?")[0]), credentials(Path(deployed.home))
    signer = Credentials(key["AWS_ACCESS_KEY_ID"], key["AWS_SECRET_ACCESS_KEY"])
    SigV4Auth(signer, "lambda", deployed.region).add_auth(asked)
    request = urllib.request.Request(asked.url, headers=dict(asked.headers))
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def repack(package: bytes, name: str, source: str) -> bytes:
    """Return a function's package with a later module that wraps its handler's module."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as before, zipfile.ZipFile(packed, "w") as after:
        for item in before.infolist():
            module = item.filename == f"lambdas/{name}.py"
            item.filename = f"lambdas/_before/{name}.py" if module else item.filename
            after.writestr(item, before.read(item.orig_filename))
        after.writestr(f"lambdas/{name}.py", source.format(name=name))
    return packed.getvalue()
