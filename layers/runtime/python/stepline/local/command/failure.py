"""Error handling of commands: one line on standard error and an exit code for every failure."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn, cast

import click

from stepline.errors import SteplineError

FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130
"""A shell's exit code for a command ended by Ctrl-C."""


class Edge(click.Group):
    """Converts errors to `error: code: sentence`, or with --json to the object of an `error` frame."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> NoReturn:
        """Run a command and exit."""
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in words
        name = str(options.get("prog_name") or (more[0] if more else self.name))
        options["standalone_mode"] = False
        try:
            code = super().main(words or ["--help"], *more, **options)
        except click.exceptions.NoArgsIsHelpError as error:
            commands = cast("click.Group", error.ctx.command).list_commands(error.ctx)
            misuse(f"add a command: {', '.join(commands)}", self._path(name, words), as_json=as_json)
        except click.UsageError as error:
            misuse(error.format_message(), self._path(name, words), as_json=as_json)
        except click.ClickException as error:
            fail("usage", error.format_message(), MISUSED, as_json=as_json)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except SteplineError as error:
            fail(error.reason, str(error), as_json=as_json)
        sys.exit(code if isinstance(code, int) else 0)

    def _path(self, name: str, words: Sequence[str]) -> str:
        """Return the words that call the command, without its arguments."""
        group: click.Command = self
        path = [name]
        for word in words:
            if not isinstance(group, click.Group) or word not in group.commands:
                break
            path.append(word)
            group = group.commands[word]
        return " ".join(path)


def misuse(message: str, command: str, *, as_json: bool) -> NoReturn:
    """Print the error of a wrong call of a command, and exit."""
    sentence = f"{message[:1].lower()}{message[1:].rstrip('.')}"
    fail("usage", f"{sentence} ({command} --help)", MISUSED, as_json=as_json)


def fail(code: str, message: str, exit_code: int = FAILED, *, as_json: bool = False) -> NoReturn:
    """Print the error and exit."""
    click.echo(_render_failure(code, message, as_json=as_json), err=True)
    sys.exit(exit_code)


def _render_failure(code: str, message: str, *, as_json: bool) -> str:
    """Return the text of an error; it may have several lines, such as a program's last output."""
    from stepline.local.safe_text import clean

    if as_json:
        return json.dumps({"frame": "error", "code": code, "message": message})
    return f"error: {code}: {clean(message)}"
