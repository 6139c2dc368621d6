"""The AWS emulator: its environment, its process, and its data across restarts."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from stepline.errors import DependencyError
from stepline.local.guard.request_filter import PAGES
from stepline.local.install.package import make_environment
from stepline.local.stage.deployed import ACCOUNT, REGION, credentials, function_environment, make_home
from stepline.local.stage.durable import KEEP
from stepline.local.stage.fingerprint import Fingerprint
from stepline.local.stage.service import LOOPBACK, Service, claim_port, claimed_port

Progress = Callable[[str], None]

PORT: Final = 4566
LOCK_FILE: Final = Path(__file__).with_name("emulator.lock")
_HERE: Final = Path(__file__).parent
LAUNCHER: Final = (
    *(_HERE / name for name in ("launch.py", "durable.py", "cold_start.py")),
    *sorted((_HERE.parent / "guard").glob("*.py")),
)
"""Our files that run in the emulator's process, the script first."""
STOP_TIMEOUT_S: Final = 7
KILL_S: Final = 3
"""The longest end of the killed emulator, whose group may have hundreds of processes."""
KEEP_TIMEOUT_S: Final = 30
_SETTLED_S: Final = 0.5
_POLL_S: Final = 0.02


class Emulator:
    """MiniStack on loopback.

    Acknowledged writes outlive it (`durable.py`); a stop saves the rest of its state.
    """

    def __init__(self, home: Path) -> None:
        """Set the paths; nothing is started."""
        self._home = make_home(home)
        self._environment = home / "emulator-env"
        self._started = home / "emulator.json"
        self.service = Service("emulator", home)
        self._fingerprint = Fingerprint(self._started)
        self._state = home / "data/state"

    def install(self, progress: Progress) -> None:
        """Create the emulator's environment from its lock file, unless it exists. It pins its own botocore."""
        make_environment(
            self._environment, LOCK_FILE, lambda: progress("installing the emulator (70 MB, some seconds)")
        )

    def start(self, model: Mapping[str, str], progress: Progress, *, pages: Sequence[str] = ()) -> str:
        """Start the emulator with the `model` variables for functions; return its endpoint.

        An emulator with other variables is restarted. `pages` are the origins of the only web pages that may call it.
        """
        model = {**model, PAGES: " ".join(pages)}
        self.install(progress)
        port = claimed_port("emulator", self._home)
        if self.service.running and (changed := self._fingerprint.changed(self._inputs(port, model))):
            progress(f"restarting the emulator: {', '.join(changed)} changed")
            self.stop()
        is_new = not self.service.running
        if is_new:
            port = claim_port("emulator", PORT, self._home)
            shutil.rmtree(self._home / "tmp", ignore_errors=True)  # code of functions deployed before
            progress(f"starting the emulator on {LOOPBACK}:{port}")
        self.service.start(
            [str(self._python), "-P", str(LAUNCHER[0])], self.variables(port, model), port=port, timeout_s=30
        )
        if is_new:
            self._fingerprint.take(self._inputs(port, model))
        return self.endpoint

    @property
    def endpoint(self) -> str:
        """The address at the port that it claimed last, which may be newer than the last deployment."""
        return _endpoint(claimed_port("emulator", self._home))

    @property
    def started_at(self) -> datetime:
        """The time of its first answer."""
        return datetime.fromtimestamp(self._started.stat().st_mtime, UTC)

    def keep(self) -> None:
        """Have the whole state written now, so that a deployment survives a kill. Raises DependencyError."""
        kept, pid = self._home / "data/kept", self.service.pid
        kept.unlink(missing_ok=True)
        if pid is not None:
            os.kill(pid, KEEP)
        deadline = time.monotonic() + KEEP_TIMEOUT_S
        while not kept.exists():
            if not self.service.running or time.monotonic() > deadline:
                raise DependencyError(
                    f"the emulator did not save its state:\n{self.service.last_words()}", code="local_service"
                )
            time.sleep(_POLL_S)

    def stop(self) -> bool:
        """Stop the emulator; return True if it saved its data.

        It saves at once, and would then wait for functions that still run: they are ended instead.
        """
        if not self.service.running:
            return True
        asked_at = time.time()

        def settled() -> bool:
            saved_at = self._saved_at()
            return asked_at < saved_at < time.time() - _SETTLED_S

        self.service.stop(timeout_s=STOP_TIMEOUT_S, done=settled, kill_s=KILL_S)
        return self._saved_at() > asked_at

    def _saved_at(self) -> float:
        """Return the time of the last write to a state file, in seconds since the epoch."""
        return max((path.stat().st_mtime for path in self._state.glob("*.json")), default=0.0)

    @property
    def _python(self) -> Path:
        return self._environment / "bin/python"

    def variables(self, port: int, model: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the emulator, which every function inherits."""
        temporary = self._home / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        return function_environment(
            self._home,
            **credentials(self._home),
            AWS_REGION=REGION,
            AWS_DEFAULT_REGION=REGION,
            # Without it a function of a custom runtime would call the real AWS.
            AWS_ENDPOINT_URL=_endpoint(port),
            AWS_EC2_METADATA_DISABLED="true",
            GATEWAY_PORT=str(port),
            BIND_HOST=LOOPBACK,
            MINISTACK_HOST=LOOPBACK,
            MINISTACK_ACCOUNT_ID=ACCOUNT,
            MINISTACK_REGION=REGION,
            PERSIST_STATE="1",
            STATE_DIR=str(self._state),
            S3_PERSIST="1",
            S3_DATA_DIR=str(self._home / "data/s3"),
            IOT_MTLS_ENABLED="0",
            SFTP_ENABLED="0",
            LOG_LEVEL="INFO",
            TMPDIR=str(temporary),
            **model,
        )

    def _inputs(self, port: int, model: Mapping[str, str]) -> dict[str, str]:
        """Return all inputs of a running emulator, by name."""
        files = {path.name: path.read_text() for path in (LOCK_FILE, *LAUNCHER)}
        return self.variables(port, model) | files


def _endpoint(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"
