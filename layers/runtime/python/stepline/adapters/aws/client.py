"""Clients of AWS services: bounded timeouts, one session per process, and no imports before the first use."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from stepline.errors import InputError

if TYPE_CHECKING:
    from botocore.config import Config
    from botocore.session import Session

    from stepline.metering.ledger import Ledger

MODULES: Final = ("botocore.session", "botocore.client", "stepline.adapters.aws.metering.client_meter")
"""The modules that the first client loads."""
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
    regional_hosts: bool = False,
    ledger: Ledger | None = None,
) -> Any:
    """Return a new client of `service`; safe for several threads. With a `ledger` its calls are counted there.

    `attempts` includes the first attempt. Standard retries wait for at most a second or two between attempts; adaptive
    retries would delay healthy calls of other conversations after one throttle.

    With `regional_hosts`, the URLs that an S3 client signs for others name the bucket's host in its region. botocore
    would sign the global host, which a gateway endpoint does not reach, and which answers with a redirect for a new
    bucket; a browser does not follow a redirect with a form.
    """
    config = _bounded(read_timeout_s, attempts, signature, regional_hosts=regional_hosts)
    with _LOCK:  # creating clients from a session is not thread-safe
        client = session().create_client(service, endpoint_url=endpoint, config=config)
    if ledger is not None:
        from stepline.adapters.aws.metering.client_meter import ClientMeter  # noqa: PLC0415 -- needs botocore

        ClientMeter(ledger).listen(client)
    return client


def _bounded(read_timeout_s: float, attempts: int, signature: str, *, regional_hosts: bool = False) -> Config:
    from botocore.config import Config  # noqa: PLC0415 -- 0.3 s of import, paid by the first call to AWS

    return Config(
        connect_timeout=2,
        read_timeout=read_timeout_s,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        signature_version=signature,
        tcp_keepalive=True,
        s3={"addressing_style": "virtual", "us_east_1_regional_endpoint": "regional"}
        if regional_hosts
        else None,
    )


@cache
def session() -> Session:
    """Return the process's botocore session; boto3 would cost 50 ms more and add nothing here."""
    import botocore.session  # noqa: PLC0415 -- see connect

    made = botocore.session.get_session()
    for role in _TAKEN:
        made.register_component("credential_provider", role)
    return made


def take_role(arn: str, name: str) -> None:
    """Make this process's clients use a role from now on, in self-renewing sessions of that name.

    The role must trust the process's own credentials. No request is made before the first call to AWS. Raises
    InputError `another_role`: the process already uses another role.
    """
    if _TAKEN and arn != _TAKEN[0].arn:
        raise InputError("this process acts under another role already", code="another_role")
    _TAKEN[:] = [_Role(arn, name)]
    session.cache_clear()


class _Role:
    """A credential provider for a session: a role's credentials, fetched when needed and kept while valid."""

    def __init__(self, arn: str, name: str) -> None:
        self.arn = arn
        self._name = name

    def load_credentials(self) -> Any:
        """Return self-renewing credentials. Raises NoCredentialsError if the process has none of its own."""
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
"""The role that this process uses, if any."""
