"""What a command is given as text, read."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import click


class Have(NamedTuple):
    """Running text that a client has: `chars` of lane `lane` of stream `claim`."""

    claim: int
    lane: str
    chars: int


def parse_have(text: str) -> Have:
    """Read `CLAIM/LANE=CHARS`. Raises click.BadParameter."""
    found = re.fullmatch(r"(\d{1,12})/([^=]{1,64})=(\d{1,12})", text)
    if found is None:
        raise click.BadParameter("expected CLAIM/LANE=CHARS", param_hint="--have")
    return Have(claim=int(found[1]), lane=found[2], chars=int(found[3]))


def parse_payload(text: str) -> dict[str, Any]:
    """Read a JSON object. Raises click.BadParameter."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--payload") from error
    if not isinstance(found, dict):
        raise click.BadParameter("expected a JSON object", param_hint="--payload")
    return found
