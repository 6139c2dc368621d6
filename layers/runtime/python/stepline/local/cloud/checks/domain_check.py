"""The domains of a deployed stage's APIs: whether their DNS records exist."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from stepline.local.check import Check, passed, warned

NAME: Final = "domains"
HOSTS: Final[Mapping[str, str]] = {"ApiHost": "HttpUrl", "SocketHost": "WebSocketUrl"}
"""The outputs with the names that records point to, and those with the addresses of the APIs."""


def resolves(domain: str) -> bool:
    """Return True if a domain has an address."""
    try:
        return bool(socket.getaddrinfo(domain, 443))
    except socket.gaierror:
        return False


def check_domains(outputs: Mapping[str, str], is_found: Callable[[str], bool] = resolves) -> Check:
    """Check that each domain of an API has a record; the remedy names those that are missing."""
    domains = {
        str(urlsplit(outputs[url]).hostname): outputs[host]
        for host, url in HOSTS.items()
        if host in outputs and url in outputs
    }
    missing = [domain for domain in domains if not is_found(domain)]
    if missing:
        records = ", ".join(f"{domain} CNAME {domains[domain]}" for domain in missing)
        return warned(NAME, f"no address is known of {', '.join(missing)}", f"add DNS records: {records}")
    return passed(NAME, ", ".join(domains) or "those of AWS")
