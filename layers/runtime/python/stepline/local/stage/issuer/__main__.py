"""`python -m stepline.local.stage.issuer`: run the issuer until it is stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepline.local.stage.deployed import HOME
from stepline.local.stage.issuer.issuer_server import make_issuer_server


def main() -> None:
    parser = argparse.ArgumentParser(description="Loopback OpenID Connect issuer of the local stage.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--page", default="", help="Origin of the page that may sign in.")
    parser.add_argument("--origin", action="append", default=[], help="Origin of another such page.")
    parser.add_argument("--name", default="", help="Name that the form of the sign-in offers.")
    parser.add_argument("--home", type=Path, default=HOME)
    given = parser.parse_args()
    origins = tuple(given.origin)
    make_issuer_server(
        given.port, given.home, page=given.page, origins=origins, name=given.name
    ).serve_forever()


if __name__ == "__main__":
    main()
