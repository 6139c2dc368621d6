"""docs/reference/versions.md: what is public, what a version number promises, and what is deprecated."""

from __future__ import annotations

from typing import Final, NamedTuple

from docs.build import DOCS

PATH: Final = DOCS / "reference/versions.md"


class Deprecation(NamedTuple):
    """A public name that a release announced to remove, its replacement, and the releases of both."""

    name: str
    use: str
    since: str
    removed_in: str


DEPRECATED: Final[tuple[Deprecation, ...]] = ()

HEAD: Final = """\
# Versions

The Python package and the npm packages of a release have one number, and are tested together. It changes with the release's commit:
what is built between two releases has the number of the earlier one. The [changelog](../../CHANGELOG.md) says
what changes. `make dist` builds all packages of a commit into `dist`, with their checksums; the same commit, Python and Node give
the same bytes in any folder.

## What is public

| | its names and forms |
|---|---|
| the library `stepline`, the test kit `stepline.testing`, the construct `stepline_cdk.Agent`, the npm packages | [the public face](public-face.md) |
| the command line: commands, options, and the output of `--json`; not the texts for people | [the command line](cli.md) |
| settings, and choices of a stage | [settings](settings.md), [choices](choices.md) |
| the HTTP API | [endpoints](http-api.md), [openapi.json](openapi.json) |
| the websocket: messages, frames, client events | [messages](messages.md), [events](events.md) |
| doors: what `stepline serve` answers in protocols of others | [doors](../concepts/doors.md) |
| codes of errors, not their sentences | [errors](errors.md) |
| the names and parameters of tools that the model sees | [tools](tools.md) |
| what is stored: batches, states, exports | [versions of the log](../concepts/log.md#versions) |

Everything else may change in any release: modules below `stepline` other than these, the names of resources in templates, the
texts of prompts, and the chat page.

## What a number promises

Numbers follow [Semantic Versioning](https://semver.org/spec/v2.0.0.html).

- **Before 1.0**, `0.MINOR.0` may remove or change what is public, by the [rule of deprecations](#deprecations). `0.MINOR.PATCH` only
  repairs.
- **From 1.0**, only `MAJOR.0.0` removes or changes it. A minor release adds, and announces; a patch only repairs.
- **Stored data** is outside of this rule. Every release reads what each earlier release stored, and an earlier release reads what a later
  one stores, or stops with `format_newer` ([the log](../concepts/log.md#versions)).
- Clients ignore fields, frames and events that they do not know, so adding one is no change of what is public. So is another optional
  field of a request, another command, option, setting, choice or code.
- A fault that risks data or rights is repaired at once, without an announcement in advance; the changelog says so under Security.

## Deprecations

What is public is announced before it is removed, and works until then.

1. A release announces it: in the changelog under Deprecated with its replacement, in the table below, and where it is used:

   | | its notice |
   |---|---|
   | Python, also the construct's props | a `DeprecationWarning` that names the replacement and the release of the removal |
   | npm | `@deprecated` in the documentation of the name, which editors and linters show |
   | a command, an option, a setting, a choice | one line on standard error, which `--json` leaves alone |
   | an endpoint or its field | `deprecated: true` in the description, and the header `Deprecation` in answers |
   | a frame, a client event or its field | its row in the reference |

2. It stays for at least one minor release after the one that announced it: what 0.3.0 announces is removed in 0.5.0 at the earliest.
   From 1.0 it stays until the next major release, and for six months at least.
3. The release in the table removes it, the changelog names it under Removed, and its row goes. A test fails if a release is made with a
   row that is due, or with a row that gives less time than this.

"""


def render() -> str:
    """Return the page's text."""
    rows = "\n".join(f"| `{one.name}` | `{one.use}` | {one.since} | {one.removed_in} |" for one in DEPRECATED)
    table = f"| deprecated | use | since | removed in |\n|---|---|---|---|\n{rows}\n"
    return HEAD + (table if DEPRECATED else "Nothing is deprecated today.\n")


def faults_of(rows: tuple[Deprecation, ...], release: str) -> list[str]:
    """Return the faults of the rows at a release: removals that are due, and those that give users too little time."""
    faults = [f"{row.name}: is due" for row in rows if _numbers(row.removed_in) <= _numbers(release)]
    return faults + [f"{row.name}: is removed too early" for row in rows if not _has_time(row)]


def _has_time(row: Deprecation) -> bool:
    since, gone = _numbers(row.since), _numbers(row.removed_in)
    before_one = since[0] == gone[0] == 0
    return gone[1] >= since[1] + 2 if before_one else gone[0] > since[0]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
