"""Effects of tools: a ledger outside every subject's store, and what tools are to do after an effect.

A subject's tools `note` and `pay` follow this contract, in their own language. A tool with the argument `word`

1. appends the line `<word>` to the file `ledger` of the folder that TORTURE_EFFECTS names, in one write;
2. if the file `kill.<word>` exists there, deletes it and kills its own process with SIGKILL;
3. waits, looking every 50 ms, while the file `hold.<word>` exists;
4. returns the text `noted <word>` or `paid <word>`.
"""

from __future__ import annotations

from pathlib import Path


class Effects:
    """The ledger in a folder."""

    def __init__(self, folder: Path) -> None:
        """Use an existing folder."""
        self.folder = folder
        self._ledger = folder / "ledger"

    def count(self, word: str) -> int:
        """Return how often a tool did its effect for a word."""
        return self._ledger.read_text().split().count(word) if self._ledger.exists() else 0

    def kill_after(self, word: str) -> None:
        """Let the next tool that does its effect for a word kill its process then."""
        (self.folder / f"kill.{word}").touch()

    def is_killed(self, word: str) -> bool:
        """Report whether the tool has taken its order to kill its process."""
        return self.count(word) > 0 and not (self.folder / f"kill.{word}").exists()

    def hold(self, word: str) -> None:
        """Let tools for a word wait after their effect."""
        (self.folder / f"hold.{word}").touch()

    def release(self, word: str) -> None:
        """Let tools for a word return."""
        (self.folder / f"hold.{word}").unlink(missing_ok=True)
