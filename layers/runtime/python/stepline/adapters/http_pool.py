"""Pooled urllib3 connections to one server, through the environment's proxy, and the trusted authorities."""

from __future__ import annotations

import ssl
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3 import exceptions as foreign
from urllib3.util import make_headers, parse_url

POOL_SIZE: Final = 8
"""The number of pooled connections; further concurrent calls open their own."""


def make_pool(url: str) -> urllib3.PoolManager:
    """Return a pool for a server; nothing is sent. Raises urllib3's LocationParseError for an invalid URL."""
    target = parse_url(url)
    if target.scheme not in ("http", "https") or not target.host:
        raise foreign.LocationParseError(url)
    options: dict[str, Any] = {"maxsize": POOL_SIZE}
    if target.scheme == "https":
        options["ssl_context"] = make_trust()
    proxies = getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(target.netloc or target.host):
        return urllib3.PoolManager(**options)
    login = parse_url(proxy).auth
    return urllib3.ProxyManager(
        proxy, proxy_headers=make_headers(proxy_basic_auth=login) if login else None, **options
    )


def make_trust() -> ssl.SSLContext:
    """Return a context with the system's authorities, or botocore's if the system's Python has none."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return ssl.create_default_context()
    from botocore.httpsession import get_cert_path  # noqa: PLC0415 -- only here, and not where botocore is unused

    return ssl.create_default_context(cafile=get_cert_path(True))
