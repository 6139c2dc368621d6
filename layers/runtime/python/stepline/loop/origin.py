"""Which site a browser may connect from."""

from __future__ import annotations

from collections.abc import Sequence

from stepline.errors import AuthError


def check_origin(origin: str, allowed: Sequence[str]) -> None:
    """Refuse a browser of a foreign site; a client without an Origin header is no browser. Raises AuthError.

    Browsers write an origin in one way, so it is compared letter by letter. `null` is what pages without a site
    say (a sandboxed frame, a file), so it names nobody, whatever is allowed.
    """
    if origin and (origin == "null" or origin not in allowed):
        raise AuthError("this origin may not connect", code="origin_not_allowed")
