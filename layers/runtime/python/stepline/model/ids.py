"""Ids of conversations, turns, calls and executions, and times.

Ids are deterministic, so that a retried step makes the same ones.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

from stepline.errors import InputError
from stepline.model.base import Value

SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Tenant, project, conversation, user and client message id: text that is safe in a key or a path."""

USER_MAX_CHARS = 256
"""A subject is short ASCII (OpenID Connect Core, section 2).

The state of a conversation has room for this much.
"""

BUNDLE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""The name of a bundle on its stage."""

DEFAULT_BUNDLE = "default"
"""The name of the stage's default bundle, for a conversation whose first message names none."""

FURTHER_BUNDLE = re.compile(r"(?!default\Z)[a-z][a-z0-9_-]{0,31}")
"""The name of any other bundle."""

TURN = re.compile(r"turn_[A-Za-z0-9_-]{1,64}")
CALL = re.compile(r"tc_[0-9a-f]{12}")


def check_segment(text: str, what: str) -> str:
    """Return `text` if it is safe in a key. Raises InputError `bad_<what>`."""
    if not SEGMENT.fullmatch(text):
        raise InputError(f"{what} must match {SEGMENT.pattern}", code=f"bad_{what}")
    return text


def is_user(text: str) -> bool:
    """Return True if `text` is a valid user name: printable ASCII, not too long."""
    return text.isascii() and text.isprintable() and 0 < len(text) <= USER_MAX_CHARS


class Lane(Value):
    """One conversation of one project of one tenant: the unit of ordering, ownership and billing."""

    tenant: str
    project: str
    conversation: str

    def key(self) -> str:
        """Return `<tenant>#<project>#<conversation>`, the tail of every table key of this lane."""
        return f"{self.tenant}#{self.project}#{self.conversation}"

    def prefix(self) -> str:
        """Return `<tenant>/<project>/<conversation>`, the middle of every artifact key of this lane."""
        return f"{self.tenant}/{self.project}/{self.conversation}"


def make_lane(tenant: str, project: str, conversation: str) -> Lane:
    """Build a lane from untrusted parts. Raises InputError."""
    return Lane(
        tenant=check_segment(tenant, "tenant"),
        project=check_segment(project, "project"),
        conversation=check_segment(conversation, "conversation"),
    )


PERSON_CHARS = 32
"""The length of `person`."""


def person(tenant: str, project: str, user: str) -> str:
    """Return the hash of a user for keys, and for records that may not hold a name: 32 hex digits."""
    return hashlib.sha256(f"{tenant}/{project}/{user}".encode()).hexdigest()[:PERSON_CHARS]


def turn_id(at: datetime, seed: str) -> str:
    """Return `turn_<yyyymmddThhmmss>_<6 hex>`; `seed` makes it unique in its second."""
    return f"turn_{at.astimezone(UTC):%Y%m%dT%H%M%S}_{hashlib.sha256(seed.encode()).hexdigest()[:6]}"


TURN_BEGAN = re.compile(r"turn_(\d{8}T\d{6})_.*")


def trace_id(lane: Lane, turn: str) -> int:
    """Return the id of a turn's trace, 128 bits: every process that works on the turn computes the same one.

    The first 32 are the second in which the turn began, if its id has it: X-Ray once accepted no others.
    """
    digest = hashlib.sha256(f"{lane.key()}/{turn}/trace".encode()).digest()
    made = int.from_bytes(digest[:16], "big")
    if (found := TURN_BEGAN.fullmatch(turn)) is None:
        return made
    began = datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    return (int(began.timestamp()) & 0xFFFFFFFF) << 96 | made & (1 << 96) - 1


def root_span_id(lane: Lane, turn: str) -> int:
    """Return the id of the span of the whole turn, 64 bits."""
    return int.from_bytes(hashlib.sha256(f"{lane.key()}/{turn}/root".encode()).digest()[:8], "big")


def call_id(turn: str, iteration: int, index: int) -> str:
    """Return `tc_<12 hex>` for one action of one round: a retried round has the same call ids."""
    return f"tc_{hashlib.sha256(f'{turn}/{iteration}/{index}'.encode()).hexdigest()[:12]}"


def edited_call_id(call: str, n: int) -> str:
    """Return the id of a call that a person edited; `n` is the batch of the edit."""
    return f"tc_{hashlib.sha256(f'{call}/edited/{n}'.encode()).hexdigest()[:12]}"


def execution_name(lane: Lane, epoch: int) -> str:
    """Return the execution's name, unique per state machine for 90 days: `<16 hex of the lane>-<epoch>`."""
    return f"{hashlib.sha256(lane.key().encode()).hexdigest()[:16]}-{epoch}"


def utc(at: datetime) -> str:
    """Return ISO-8601 in UTC with milliseconds and `Z`, the one format of stored times."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_utc(text: str, what: str) -> str:
    """Return a time of ISO-8601 in the stored format; without a zone it is in UTC. Raises InputError, naming `what`."""
    try:
        at = datetime.fromisoformat(text)
        return utc(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise InputError(f"`{what}` is no time of ISO 8601") from error


UTC_ZONE = "UTC"
"""The time zone of a user without one."""


def local_time(at: datetime, zone: str) -> str:
    """Return a time in a zone of the IANA database, `2026-11-21T11:15+01:00 (Saturday)`; "" for an unknown zone.

    Source: https://docs.python.org/3/library/zoneinfo.html. The database is that of the system; without one, only
    UTC is known.
    """
    if zone == UTC_ZONE:
        there = at.astimezone(UTC)
    else:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - most users name no zone: 3 ms of CPU time

        try:
            there = at.astimezone(ZoneInfo(zone))
        except (KeyError, ValueError, OSError):  # no such zone, no key, a folder
            return ""
    return f"{there.isoformat(timespec='minutes')} ({_DAYS[there.weekday()]})"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
