"""A real ClamAV daemon of a test's own, which knows the scanners' test file and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.free_port import free_port

PROGRAM = shutil.which("clamd")
EICAR = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


class ClamavDaemon:
    """One daemon on a port and a unix socket of its own."""

    def __init__(self, folder: Path) -> None:
        if PROGRAM is None:
            pytest.skip("clamd is not installed")
        self.port = free_port()
        self.socket = str(folder / "clamd.sock")
        known = folder / "known"
        known.mkdir()
        (known / "test.ndb").write_text(f"Test.Eicar:0:*:{EICAR[:34].hex()}\n")
        config = folder / "clamd.conf"
        lines = {
            "LocalSocket": self.socket,
            "TCPSocket": self.port,
            "TCPAddr": "127.0.0.1",
            "DatabaseDirectory": known,
            "TemporaryDirectory": folder,
            "Foreground": "yes",
            "User": "root" if os.geteuid() == 0 else os.environ.get("USER", "nobody"),  # noqa: TID251 - the current user
            "StreamMaxLength": "30M",
        }
        config.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        self._process = subprocess.Popen(
            [PROGRAM, f"--config-file={config}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout
        said = []
        for line in self._process.stdout:
            said.append(line)
            if "Self checking" in line or "PDF support" in line:
                return
        raise AssertionError(f"clamd did not start: {said}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
