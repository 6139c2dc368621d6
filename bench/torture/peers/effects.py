"""The tools in Python, for the peers, and their effect; `bench/torture/effects.py` has the contract."""

import os
import signal
import time
from pathlib import Path

FOLDER = Path(os.environ["TORTURE_EFFECTS"])  # noqa: TID251 - a program of a peer's environment


def act(word: str) -> None:
    """Do the effect, and what the control files order after it."""
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{word}\n")
    if (FOLDER / f"kill.{word}").exists():
        (FOLDER / f"kill.{word}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    while (FOLDER / f"hold.{word}").exists():
        time.sleep(0.05)


def look(word: str) -> str:
    """Look at a word."""
    return f"looked {word}"


def note(word: str) -> str:
    """Note a word."""
    act(word)
    return f"noted {word}"


def pay(word: str) -> str:
    """Pay for a word."""
    act(word)
    return f"paid {word}"
