"""The chat page of a deployed stage as a browser gets it: its document, its policy, and the stage that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from stepline.errors import DependencyError
from stepline.local.check import Check, failed, passed, warned
from stepline.model.base import Value

NAME: Final = "page"
TIMEOUT_S: Final = 20
KEPT_OUT: Final = ("default-src 'none'", "frame-ancestors 'none'", "trusted-types 'none'")
"""Rules of every page's policy. Source: web/headers.json."""


class PageResponse(Value):
    """A response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def fetch_page(url: str) -> PageResponse:
    """Return the response of an address; redirects are not followed. Raises DependencyError `smoke_failed`."""
    import urllib3

    try:
        found = urllib3.request("GET", url, timeout=TIMEOUT_S, redirect=False, retries=2)
    except urllib3.exceptions.HTTPError as error:
        raise DependencyError(f"{url} does not answer: {error}", code="smoke_failed") from error
    headers = {name.lower(): value for name, value in found.headers.items()}
    return PageResponse(status=found.status, headers=headers, body=found.data)


def check_page(
    stage: str, outputs: Mapping[str, str], ask: Callable[[str], PageResponse] = fetch_page
) -> Check:
    """Check the page at the distribution's address, then whether a custom domain leads there."""
    again = f"stepline deploy --stage {stage}"
    host, url = outputs.get("PageHost", ""), outputs.get("PageUrl", "")
    if not host:
        return warned(NAME, "the stage has no page: an earlier release deployed it", again)
    try:
        if wrong := _find_wrong(f"https://{host}/", outputs, ask):
            return failed(NAME, wrong, again)
    except DependencyError as error:
        return failed(NAME, str(error), "check the distribution in CloudFront")
    domain = urlsplit(url).netloc
    if domain != host:
        try:
            ask(url)
        except DependencyError as error:
            return warned(NAME, str(error), f"add a DNS record: {domain} CNAME {host}")
    return passed(NAME, url)


def _find_wrong(page: str, outputs: Mapping[str, str], ask: Callable[[str], PageResponse]) -> str:
    """Return the first fault of the page or its config, "" for none. Raises DependencyError."""
    config, index = ask(f"{page}config.json"), ask(page)
    for name, answer in (("config.json", config), ("index.html", index)):
        if answer.status != 200:
            return f"{page} answers {answer.status} for {name}"
    try:
        named = json.loads(config.body)["http_url"]
    except (ValueError, KeyError, TypeError):
        return f"{page}config.json is not the config of a chat page"
    if named != outputs.get("HttpUrl"):
        return f"{page}config.json names another stage: {named}"
    policy = index.headers.get("content-security-policy", "")
    missing = [rule for rule in (*KEPT_OUT, named.rstrip("/")) if rule not in policy]
    if missing:
        return f"the policy of {page} lacks {', '.join(missing)}"
    return (
        ""
        if "strict-transport-security" in index.headers
        else f"{page} lacks the header Strict-Transport-Security"
    )
