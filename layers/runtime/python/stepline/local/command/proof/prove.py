"""`stepline prove`: try the claims of a stage, and write a report."""

from __future__ import annotations

import secrets
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from stepline.local.command.argument import Login, confirm, json_option, login_options, yes_option
from stepline.local.command.cloud import profile_option, region_option

if TYPE_CHECKING:
    from stepline.local.proof.proof_report import ProofReport, ProofResult
    from stepline.local.proof.proof_row import Proof

MARKS: Final = {"held": "held", "failed": "FAILED", "not run": "not run"}


@click.command()
@login_options
@profile_option
@region_option
@click.option(
    "--usd",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="AMOUNT",
    help="Run no row that may exceed this sum of dollars.",
)
@click.option(
    "--row", "names", multiple=True, metavar="NAME", help="Run this row alone; may be given several times."
)
@yes_option
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of the report; default: proof-STAGE-TIME.",
)
@json_option
def prove(
    *,
    login: Login,
    profile: str,
    region: str,
    usd: float,
    names: tuple[str, ...],
    yes: bool,
    report: Path | None,
    as_json: bool,
) -> None:
    """Try the claims of a stage, and report what held.

    Without --stage this machine's stage is tried, as a user of its own. Each row sends its messages to a conversation of
    its own, which is kept; docs/how-to/first-day.md lists the rows. A row that this stage or this machine cannot run is `not run`,
    with the reason. It asks before it spends; the scripted model costs nothing.

    The exit code is 1 if a row failed.
    """
    import msgspec

    from stepline.adapters.system import SystemClock
    from stepline.local.proof.proof_report import summarise_proofs
    from stepline.local.proof.proved_stage import find_proved
    from stepline.local.proof.run_proofs import estimate_usd, make_folder_name, run_proofs
    from stepline.local.proof.stage_versions import read_versions
    from stepline.local.safe_text import clean_line
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.local.terminal.output import progress

    if (
        not login.stage and not login.user
    ):  # a row limits its user, and another one reads all their conversations
        login = Login(user=f"proof-{secrets.token_hex(4)}", stage="", token_command=login.token_command)
    proofs = _choose_rows(names)
    stage = find_proved(login.caller(), login.stage, profile=profile, region=region)
    if not stage.is_free:
        turns = sum(proof.turns for proof in proofs)
        progress(f"{len(proofs)} rows, at most {turns} turns of the model: about ${estimate_usd(proofs):.2f}")
        if not yes and not confirm(f"spend at most ${usd:.2f}?"):
            sys.exit(1)
    folder = report or Path(make_folder_name(datetime.now(UTC), stage.name))
    _make_folder(folder)

    def show(result: ProofResult) -> None:
        line = render_json_line(msgspec.to_builtins(result)) if as_json else clean_line(_line(result))
        click.echo(line)

    made = run_proofs(
        stage,
        proofs,
        usd=usd,
        clock=SystemClock(),
        progress=show,
        save=partial(_write, folder),
        versions=read_versions(stage),
    )
    progress(f"{summarise_proofs(made)}: {folder / 'proof.html'}")
    sys.exit(0 if made.ok else 1)


def _choose_rows(names: tuple[str, ...]) -> tuple[Proof, ...]:
    """Return the rows of these names in the order of the table, all without a name. Raises click.BadParameter."""
    from stepline.local.proof.proof_table import PROOFS

    known = [proof.name for proof in PROOFS]
    if unknown := sorted({*names} - {*known}):
        raise click.BadParameter(f"{unknown[0]!r:.80} is none of {', '.join(known)}", param_hint="--row")
    return tuple(proof for proof in PROOFS if proof.name in names or not names)


def _line(result: ProofResult) -> str:
    reason = f": {result.why}" if result.why else ""
    code = f" ({result.code})" if result.code else ""
    return f"{MARKS[result.verdict]:8} {result.name:18} {result.claim}{reason}{code}"


def _make_folder(folder: Path) -> None:
    """Create the folder of a report. Raises InputError `not_writable`."""
    from stepline.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}", code="not_writable") from error


def _write(folder: Path, made: ProofReport) -> None:
    import msgspec

    from stepline.local.evaluation.written_report import write_report
    from stepline.local.proof.proof_page import render_proofs

    write_report(folder / "proof.json", f"{msgspec.json.format(msgspec.json.encode(made)).decode()}\n")
    write_report(folder / "proof.html", render_proofs(made))
