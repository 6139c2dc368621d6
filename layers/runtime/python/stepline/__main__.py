"""The command `stepline`, also `python -m stepline`: runs the command line, or prints how to install it."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Final

from stepline.local.install.extra import EXTRA

_HELP: Final = f"""Usage: stepline [OPTIONS] COMMAND [ARGS]...

Only the library is installed, for bundles, clients and services. The commands (up, chat, send, deploy and others) need
the extra `local`: pip install '{EXTRA}'

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.
"""


def main() -> None:
    """Run the command line; without its packages, print how to install them."""
    try:
        from stepline.local.command.cli import main as command  # noqa: PLC0415 - click is in the extra

        command(prog_name="stepline")
    except ModuleNotFoundError as error:
        if (error.name or "stepline").startswith("stepline"):
            raise
        _answer_alone(sys.argv[1:], str(error.name))


def _answer_alone(words: list[str], missing: str) -> None:
    """Answer the commands that work without the extra."""
    if words in (["--version"], ["--help"], ["-h"], []):
        print(metadata.version("stepline") if words == ["--version"] else _HELP.rstrip())  # noqa: T201 - a command
        return
    message = f"not installed: {missing}; install it with: pip install '{EXTRA}'"
    frame = {"frame": "error", "code": "needs_extra", "message": message}
    sys.exit(json.dumps(frame) if "--json" in words else f"error: needs_extra: {message}")


if __name__ == "__main__":
    main()
