"""Start the app with a Python that has its packages: `cdk deploy` runs this in any shell.

Standard library only, since the shell's own Python may have nothing else.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv/bin/python"
NEEDED = ("aws_cdk", "pydantic", "msgspec")


def main() -> None:
    """Replace this process by the app's; end with a sentence if no Python can run it."""
    python = sys.executable if all(map(find_spec, NEEDED)) else str(ENVIRONMENT)
    if not Path(python).exists():
        sys.exit(
            f"error: environment_missing: {sys.executable} does not have the app's packages, and {ENVIRONMENT} does not exist:"
            " `make synth` makes it"
        )
    os.execv(python, [python, str(ROOT / "app.py")])  # noqa: S606 - the interpreter that runs this, or the checkout's own


if __name__ == "__main__":
    main()
