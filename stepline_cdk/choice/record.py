"""The choices that a stage was deployed with: how the stage records them, and how a deployment's choices differ from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from stepline_cdk.choice.declare import declared
from stepline_cdk.choice.read import choice_name, print_choice
from stepline_cdk.choice.sources import Given
from stepline_cdk.names import NAMES
from stepline_cdk.stage import Stage

RECORD_BYTES: Final = 4096
"""The longest value of a parameter of the standard tier. Source: docs.aws.amazon.com/systems-manager, "parameter tiers"."""
_NOT_RECORDED: Final = ("name", "endpoint")
_SHORT_CHARS: Final = 200
_DIGEST: Final = "sha256:"
_DIGEST_CHARS: Final = 8


class Change(NamedTuple):
    """A choice that a deployment changes: its recorded text, and the new one.

    It `is_lost` if it is guarded and no source names it any more.
    """

    name: str
    old: str
    new: str
    is_lost: bool


def record_name(stage: str) -> str:
    """Return the name of a stage's parameter."""
    return NAMES["choices"].render(stage, "")


def render_record(stage: Stage, *, derived: Collection[str] = ()) -> str:
    """Return the given choices of a stage as JSON, of 4 KB at most: longer values as digests.

    `derived` are those that the command read from the account.
    """
    names = sorted(stage.model_fields_set - {*_NOT_RECORDED, *derived})
    texts = {name: print_choice(getattr(stage, name)) for name in names}
    found = _render(texts, _SHORT_CHARS)
    return found if len(found) <= RECORD_BYTES else _render(texts, len(_DIGEST) + _DIGEST_CHARS)


def compare(given: Given, record: str) -> list[Change]:
    """Return the differences between given and recorded choices, in the order of the choices."""
    return list(_changes(given, json.loads(record)))


def _changes(given: Given, deployed: Mapping[str, Any]) -> Iterator[Change]:
    for name, field in Stage.model_fields.items():
        if name in _NOT_RECORDED or (name not in deployed and given.named.get(name) is None):
            continue
        new = print_choice(getattr(given.stage, name))
        old = deployed.get(name)
        if old is not None and old in (new, _digest(new)):
            continue
        is_lost = declared(field).guarded and old is not None and name not in given.named
        yield Change(choice_name(name), "" if old is None else str(old), _shorten(new, _SHORT_CHARS), is_lost)


def _render(texts: Mapping[str, str], chars: int) -> str:
    """Return texts by name as JSON, in ASCII; longer ones as digests."""
    short = {name: _shorten(text, chars) for name, text in texts.items()}
    return json.dumps(short, separators=(",", ":"), sort_keys=True)


def _shorten(text: str, chars: int) -> str:
    """Return a text or its digest; `{{` would name another parameter."""
    return text if len(text) <= chars and "{{" not in text else _digest(text)


def _digest(text: str) -> str:
    return f"{_DIGEST}{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]}"
