"""A person at a terminal: the real chat on a pty, the keys typed, and the screen shown."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import pyte

COLUMNS, ROWS = 100, 60
PATIENCE_S = 60
"""The longest silence: a busy machine is slow, and only a bug is slower."""
READY = "/help lists the commands"
ODD = "👩\u200d👩\u200d👧\u200d👦 é\u0301\u00a0\u202f| tab\there \u0644\u0627"
LINES = [f"{number:02} \t{ODD} end" for number in range(40)]
"""Forty lines of fragile text: joined emoji, combining marks, odd spaces, tabs, another direction."""
CTRL_C, CTRL_D = "\x03", "\x04"

_CHAT = """
import sys
from pathlib import Path
from stepline.local.caller import Caller
from stepline.local.terminal.chat import Chat, run_chat
{first}
url, home, conversation, user, token = sys.argv[1:]
sys.exit(run_chat(Caller(url=url, user=user, home=Path(home), token=lambda: token), conversation))
"""


class TerminalChat:
    """`type` sends keys; `until` reads output until the screen shows it."""

    rows = ROWS

    def __init__(self, start):
        self._far, near = os.openpty()
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.raw = b""
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.before = termios.tcgetattr(near)
        self.near = near
        here = dict(os.environ)  # noqa: TID251 - not settings of ours: the shell's, except for the size of its terminal
        kept = {name: value for name, value in here.items() if name not in ("LINES", "COLUMNS")}
        self.process = start(near, {**kept, "TERM": "xterm-256color"})

    def type(self, keys):
        data = keys.encode()
        while data:
            data = data[os.write(self._far, data[:1024]) :]
            self._read(0)

    def paste(self, text):
        """Paste like a terminal with bracketed paste."""
        self.type(f"\x1b[200~{text.replace(chr(10), chr(13))}\x1b[201~")

    def screen(self):
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def prompt(self):
        """Return the line editor's lines: the end of the screen from the last prompt on."""
        return self.screen().rpartition("\n> ")[2] if "\n> " in self.screen() else ""

    def until(self, wanted):
        """Wait until the screen shows a text, or satisfies a condition."""
        shows = (lambda: wanted in self.screen()) if isinstance(wanted, str) else wanted
        until_s = time.monotonic() + PATIENCE_S
        while not shows():
            assert time.monotonic() < until_s, f"never came: {wanted!r}\n{self.screen()}"
            assert self._read(0.1) or self.process.poll() is None, f"ended:\n{self.screen()}"

    def left(self):
        """Return the exit code once the chat is over."""
        until_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < until_s, f"does not end:\n{self.screen()}"
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.returncode

    def _read(self, wait_s):
        ready, _, _ = select.select([self._far], [], [], wait_s)
        if not ready:
            return False
        data = os.read(self._far, 65536)
        self.raw += data
        self._stream.feed(data)
        return True

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._far)
        os.close(self.near)


@contextmanager
def typing(url, home, *, conversation="", user="ann", token="t", first="", warm=None):
    """Open a chat with the gateway at `url`, and end it with the block; `first` is code that runs before it.

    It is a separate process, or a fork of the Python `warm`.
    """
    code = _CHAT.replace("{first}", first)
    argv = [url, str(home), conversation, user, token]

    def start(near, env):
        if warm:
            return warm.start(argv, code=code, env=env, streams=[os.ttyname(near)] * 3)
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), near)
        return subprocess.Popen(
            [sys.executable, "-c", code, *argv], env=env, start_new_session=True, **streams
        )

    person = TerminalChat(start)
    try:
        yield person
    finally:
        person.close()
