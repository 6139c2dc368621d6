"""The credentials of a request with spans: configured headers, or an AWS signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

from stepline.adapters.aws.client import session
from stepline.errors import DependencyError, InputError

PATH: Final = "/v1/traces"
"""The path of traces below the address of an OTLP server."""
SERVICE: Final = "xray"


def traces_url(endpoint: str) -> str:
    """Return an OTLP server's address for spans."""
    return endpoint.rstrip("/") + PATH


def xray_url(region: str) -> str:
    """Return X-Ray's address for spans in a region. Source: the CloudWatch guide, "OTLP endpoint"."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{SERVICE}.{region}.{suffix}{PATH}"


def parse_headers(text: str) -> dict[str, str]:
    """Return headers from `name=value,name=value`, values percent-encoded. Raises InputError `bad_setting`.

    Source: OpenTelemetry's specification, "OTLP exporter configuration".
    """
    headers = {}
    for pair in filter(None, (one.strip() for one in text.split(","))):
        name, found, value = pair.partition("=")
        if not (found and name.strip()):
            raise InputError("headers of traces are name=value pairs with commas between", code="bad_setting")
        headers[unquote(name.strip())] = unquote(value.strip())
    return headers


class WithHeaders:
    """Adds headers that are read with the first request, because they may be in a remote secret."""

    def __init__(self, read: Callable[[], str]) -> None:
        """Parse the headers from the text that `read` returns."""
        self._read = read
        self._own: dict[str, str] | None = None

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers with ours. Raises DependencyError, InputError `bad_setting`."""
        if self._own is None:
            self._own = parse_headers(self._read())
        return {**headers, **self._own}


def signed(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers with an AWS signature of the process's own role. Raises DependencyError."""
    from botocore.auth import SigV4Auth  # noqa: PLC0415 - botocore is loaded by the first call of AWS
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - as above

    credentials = session().get_credentials()
    if credentials is None:
        raise DependencyError("there is nothing to sign spans with")
    request = AWSRequest("POST", url, headers=dict(headers), data=body)
    region = str(session().get_config_variable("region"))
    SigV4Auth(credentials.get_frozen_credentials(), SERVICE, region).add_auth(request)
    return dict(request.headers.items())
