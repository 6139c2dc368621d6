"""Credentials for tasks. The emulator tells each container where to ask for some, and would give anybody useless ones.

A container is known by what the emulator started it with: the address that it asks, and the word that it shows there.
"""

from __future__ import annotations

import contextlib
import hmac
import importlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stepline.local.guard.signature import Request

LABEL: Final = "com.amazonaws.ecs.task-arn"
LIFETIME_S: Final = 6 * 3600
DOCKER_TIMEOUT_S: Final = 10
_ADDRESS: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_WORD: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN"


def lend(request: Request, address: str, key: Mapping[str, str]) -> bytes | None:
    """Return `key` as a container reads it, None unless a task's container asks at its own address."""
    word = "".join(request.values("authorization"))
    if not any(_is_asking(variables, address, word) for variables in _running()):
        return None
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LIFETIME_S))
    lent = {
        "AccessKeyId": key["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": key["AWS_SECRET_ACCESS_KEY"],
        "Token": "none",
        "Expiration": until,
    }
    return json.dumps(lent).encode()


def _is_asking(variables: Mapping[str, str], address: str, word: str) -> bool:
    own = variables.get(_WORD, "")
    is_word = hmac.compare_digest(own.encode(), word.encode())
    return bool(own) and is_word and variables.get(_ADDRESS) == address


def _running() -> Iterator[dict[str, str]]:
    """Yield the variables of each container that runs for a task; of none, if there is no daemon."""
    docker: Any = importlib.import_module("docker")
    try:
        client = docker.from_env(timeout=DOCKER_TIMEOUT_S)
    except docker.errors.DockerException:  # what runs without a daemon is no task
        return
    with contextlib.closing(client):
        for container in client.containers.list(filters={"label": LABEL}, ignore_removed=True):
            yield dict(pair.partition("=")[::2] for pair in container.attrs["Config"]["Env"])
