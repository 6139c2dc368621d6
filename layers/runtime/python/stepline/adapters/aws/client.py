"""Clients of AWS services: bounded patience, one session a process, nothing loaded before the first use."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from botocore.session import Session

MODULES: Final = ("botocore.session", "botocore.client")
"""What the first client loads."""
_LOCK = Lock()


def connect(
    service: str,
    *,
    read_timeout_s: float,
    attempts: int = 3,
    endpoint: str | None = None,
    signature: str = "v4",
) -> Any:
    """Return a new client of `service`; safe from every thread.

    `attempts` counts the first try. Standard retries wait for at most a second or two between tries; the
    adaptive ones would hold back healthy calls of other conversations after one throttle.
    """
    from botocore.config import Config  # noqa: PLC0415 -- 0.3 s of import, paid by the first call to AWS

    config = Config(
        connect_timeout=2,
        read_timeout=read_timeout_s,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        signature_version=signature,
        tcp_keepalive=True,
    )
    with _LOCK:  # a session is not safe to make clients from two threads at once
        return session().create_client(service, endpoint_url=endpoint, config=config)


@cache
def session() -> Session:
    """Return the process's session: botocore's own, because boto3 on top of it costs 50 ms and adds nothing here."""
    import botocore.session  # noqa: PLC0415 -- see connect

    return botocore.session.get_session()
