"""Known drift: what the emulator does otherwise than AWS, so that a row that is held on it does not prove this.

Source: docs/adr/0002-emulator.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DRIFTS: Final[Mapping[str, str]] = {
    "bill": "Nothing is billed, and no service counts what it is used for: only our own counts are compared.",
    "executions": "A machine's own time limit and heartbeats are not kept, delays end after a minute without jitter, and an"
    " execution's name can never be used twice.",
    "issuer": "The issuer of tokens is ours, on this machine: no user pool, and no other provider, has signed them.",
    "library": "Functions run the library of the checkout in one Python: two versions differ in their settings alone, and no"
    " snapshot is restored.",
    "model": "The scripted model is never overloaded, never refuses and bills nothing.",
    "programs": "Programs run on this machine, with its kernel and its network, and not in a task of Fargate.",
    "recovery": "The stage keeps no earlier versions: neither of the table nor of objects.",
    "rights": "Only `make iam` enforces roles; nothing enforces leading keys and the role of the machine.",
    "scan": "There is no GuardDuty: only ClamAV's daemon can be tried.",
    "sizes": "A message of more than 128 KB, a state of more than 256 KB and a payload of more than 6 MB pass.",
    "sockets": "Quotas of requests, and the idle time and the longest life of a connection, are not tried.",
    "tasks": "No event reports that a task has stopped, and a state that waits for one does not miss its heartbeats.",
    "uploads": "The form of an upload is accepted with a forged signature.",
}
"""A sentence about each difference, by the name that rows use."""
