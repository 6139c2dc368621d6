"""`python -m stepline.local.page`: serve the chat page until it is stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepline.local.page.page_server import PageBuild, StageFacts, make_page_server
from stepline.local.stage.deployed import HOME


def main() -> None:
    parser = argparse.ArgumentParser(description="Server of the chat page on loopback.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--home", type=Path, default=HOME)
    given = parser.parse_args()
    make_page_server(given.port, StageFacts(given.home), PageBuild()).serve_forever()


if __name__ == "__main__":
    main()
