"""Clients of AWS services: bounded patience, one session a process, nothing loaded before the first use."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from stepline.errors import InputError

if TYPE_CHECKING:
    from botocore.config import Config
    from botocore.session import Session

MODULES: Final = ("botocore.session", "botocore.client")
"""What the first client loads."""
STS_READ_S: Final = 5
STS_ATTEMPTS: Final = 3
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
    config = _bounded(read_timeout_s, attempts, signature)
    with _LOCK:  # a session is not safe to make clients from two threads at once
        return session().create_client(service, endpoint_url=endpoint, config=config)


def _bounded(read_timeout_s: float, attempts: int, signature: str) -> Config:
    from botocore.config import Config  # noqa: PLC0415 -- 0.3 s of import, paid by the first call to AWS

    return Config(
        connect_timeout=2,
        read_timeout=read_timeout_s,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        signature_version=signature,
        tcp_keepalive=True,
    )


@cache
def session() -> Session:
    """Return the process's session: botocore's own, because boto3 on top of it costs 50 ms and adds nothing here."""
    import botocore.session  # noqa: PLC0415 -- see connect

    made = botocore.session.get_session()
    for role in _TAKEN:
        made.register_component("credential_provider", role)
    return made


def take_role(arn: str, name: str) -> None:
    """Let this process's clients act under a role from now on, in sessions of that name, which end and are taken anew.

    The process's own credentials must be ones that the role trusts. Nobody is asked before the first call to AWS.
    Raises InputError `another_role`: the process has taken one already.
    """
    if _TAKEN and arn != _TAKEN[0].arn:
        raise InputError("this process acts under another role already", code="another_role")
    _TAKEN[:] = [_Role(arn, name)]
    session.cache_clear()


class _Role:
    """Where a session looks for its credentials: those of a role, fetched when they are needed and while they last."""

    def __init__(self, arn: str, name: str) -> None:
        self.arn = arn
        self._name = name

    def load_credentials(self) -> Any:
        """Return credentials that renew themselves. Raises NoCredentialsError if the process has none of its own."""
        import botocore.session  # noqa: PLC0415 -- see connect
        from botocore.credentials import (  # noqa: PLC0415 -- see connect
            AssumeRoleCredentialFetcher,
            DeferredRefreshableCredentials,
        )
        from botocore.exceptions import NoCredentialsError  # noqa: PLC0415 -- see connect

        own = botocore.session.get_session()
        own.set_default_client_config(_bounded(STS_READ_S, STS_ATTEMPTS, "v4"))
        credentials = own.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        fetcher = AssumeRoleCredentialFetcher(
            own.create_client, credentials, self.arn, extra_args={"RoleSessionName": self._name}
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


_TAKEN: Final[list[_Role]] = []
"""The role that this process has taken, if it has."""
