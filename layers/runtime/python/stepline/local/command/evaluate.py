"""`stepline eval`: run an evaluation set, and cut a case out of a conversation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepline.local.command.argument import json_option, text_option
from stepline.local.command.content.recorded_source import RecordPlace, is_path, record_options
from stepline.model.ids import SEGMENT

if TYPE_CHECKING:
    from stepline.local.evaluation.cut_case import CutConversation
    from stepline.local.evaluation.evaluation import CaseResult, EvaluationReport


class _Evaluations(click.Group):
    """`eval FOLDER` is `eval run FOLDER`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; a word that names none is the folder of `run`."""
        return super().get_command(ctx, cmd_name) or self.commands["run"]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of these words, and the words that are its arguments."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


@click.group(name="eval", cls=_Evaluations)
def evaluations() -> None:
    """Run evaluation sets: `stepline eval FOLDER`.

    `eval FOLDER` is short for `eval run FOLDER`.
    """


_file_option = click.Path(dir_okay=False, path_type=Path)


@evaluations.command(name="run")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "--bundle",
    default="bundles.default",
    envvar="STEPLINE_BUNDLE",
    show_envvar=True,
    show_default=True,
    metavar="MODULE|DIR",
    help="The agent of cases that name none.",
)
@text_option("--model", metavar="NAME", help="This model, `scripted`, or `recorded`; default: as in `up`.")
@click.option(
    "--record",
    "records",
    is_flag=True,
    help="Write the model's answers beside each case, for `--model recorded`.",
)
@click.option(
    "--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="The runs of each case."
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=None,
    help="The share of its runs that must solve a case; default: 1, with --baseline 0.",
)
@click.option(
    "--baseline", type=_file_option, metavar="FILE", help="Compare with an earlier report of --json-out."
)
@click.option("--json-out", type=_file_option, metavar="FILE", help="Write the report as JSON.")
@click.option("--html", type=_file_option, metavar="FILE", help="Write the report as a page.")
@click.option("--junit", type=_file_option, metavar="FILE", help="Write the report for CI.")
@json_option
def run_cases(
    *,
    folder: Path,
    bundle: str,
    model: str,
    records: bool,
    repeat: int,
    threshold: float | None,
    baseline: Path | None,
    json_out: Path | None,
    html: Path | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Run the cases of a folder, or of one file.

    The sets that ship are evals/agent and evals/compaction, in any folder that has none of that name. Each case runs
    alone, in this process: nothing is deployed, and no stage is needed. A case passes if enough of its runs solve it, and
    if it is not worse than in the baseline. Without a model key the scripted model answers. With --model recorded the
    answers are those of an earlier run with --record: no model is asked, and a case whose requests differ fails.

    The exit code is 0 if every case passes, else 1. A report is written as a whole at the end.
    """
    import msgspec

    from stepline.local.evaluation.case_file import find_cases
    from stepline.local.evaluation.evaluated_model import open_model
    from stepline.local.evaluation.evaluation import evaluate_cases, read_baseline
    from stepline.local.evaluation.evaluation_pages import summarise_report
    from stepline.local.evaluation.written_report import check_targets
    from stepline.local.safe_text import clean_line
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.replay.recorded_model import RECORDED

    if records and (repeat > 1 or model == RECORDED):
        raise click.UsageError("--record is for one run of each case with a model")
    cases, before = find_cases(_find_set(folder)), read_baseline(baseline) if baseline else None
    module = _import_bundle(bundle)
    check_targets(json_out, html, junit)
    least = threshold if threshold is not None else 0.0 if before else 1.0

    def show(result: CaseResult) -> None:
        click.echo(render_json_line(msgspec.to_builtins(result)) if as_json else _line(result))

    place = RecordPlace()
    with open_model(model, records=records) as chosen:
        report = evaluate_cases(
            cases,
            chosen,
            bundle=module,
            repeats=repeat,
            threshold=least,
            baseline=before,
            conversations=place.find,
            progress=show,
        )
    _write_reports(report, json_out, html, junit)
    if not as_json:
        click.echo(clean_line(f"{chosen.name}: {summarise_report(report)}"))
    sys.exit(0 if report.ok else 1)


def _write_reports(
    report: EvaluationReport, json_out: Path | None, html: Path | None, junit: Path | None
) -> None:
    """Write a report into each file that is named. Raises InputError `not_writable`."""
    import msgspec

    from stepline.local.evaluation.evaluation_pages import render_junit, render_page
    from stepline.local.evaluation.written_report import write_report

    written: dict[Path | None, Any] = {
        json_out: lambda: f"{msgspec.json.format(msgspec.json.encode(report)).decode()}\n",
        html: lambda: render_page(report),
        junit: lambda: render_junit(report),
    }
    for path, render in written.items():
        if path is not None:
            write_report(path, render())


def _line(result: CaseResult) -> str:
    from stepline.local.evaluation.evaluation_pages import explain_run
    from stepline.local.safe_text import clean_line

    low, high = f"{result.low:.0%}", f"{result.high:.0%}"
    rate = "" if result.broken else f"  {result.solved}/{len(result.runs)} ({low} to {high})"
    lines = [f"{'ok' if result.ok else 'NO':4}{result.name}{rate}"]
    lines += [f"    {result.why}"] if result.why else []
    left_out = dict.fromkeys(key for run in result.runs for key in run.left_out)
    lines += [f"    not judged: {', '.join(left_out)}"] if left_out else []
    lines += [f"    {one}" for one in dict.fromkeys(line for run in result.runs for line in explain_run(run))]
    return "\n".join(map(clean_line, lines))


def _find_set(folder: Path) -> Path:
    """Return the folder of a set: one of this name here, else one that ships. Raises InputError `cases_not_found`."""
    from stepline.errors import InputError
    from stepline.local.install.project import find_app, find_home

    found = next((one for one in (folder, find_app(find_home()) / folder) if one.exists()), None)
    if found is None:
        raise InputError(f"there is no folder {folder}", code="cases_not_found")
    return found


def _import_bundle(named: str) -> str:
    """Return the module of a bundle, of which Python then finds the package. Raises as `find_bundle` does."""
    from stepline.local.command.bundle import find_bundle
    from stepline.local.install.project import find_app, find_home

    module, project = find_bundle(named, Path.cwd())
    sys.path[:0] = dict.fromkeys(map(str, (project, Path.cwd(), find_app(find_home()))))
    return module


@evaluations.command()
@click.argument("conversation", metavar="CONVERSATION")
@text_option("--turn", metavar="ID", help="The turn that the case repeats.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("evals"),
    show_default=True,
    metavar="FOLDER",
    help="The folder of the set.",
)
@text_option("--name", metavar="NAME", help="The name of the case; default: the turn's.")
@record_options
@json_option
def add(*, conversation: str, turn: str, out: Path, name: str, place: RecordPlace, as_json: bool) -> None:
    """Cut a case out of a conversation.

    CONVERSATION is a conversation of the local stage, or with --stage of a deployed one; or the path of a record that
    `export --record` wrote, or of an export: a folder, a zip or a JSON file. The turns before --turn become the history of
    the case, or, if they are many, its record; its messages and approvals the steps, its calls and sources the checks: edit
    them. The paths that were written are printed.
    """
    from stepline.local.evaluation.cut_case import cut_case
    from stepline.local.terminal.json_lines import render_json_line

    if not turn:
        raise click.UsageError("add --turn; `stepline log CONVERSATION` names the turns")
    if name and not SEGMENT.fullmatch(name):
        raise click.BadParameter("a case's name is that of a file, without folders", param_hint="--name")
    found = (
        _read_export(Path(conversation)) if _is_export(conversation) else _read_record(place, conversation)
    )
    for path in cut_case(found, turn, out, name or turn):
        click.echo(render_json_line({"path": path}) if as_json else path)


def _is_export(named: str) -> bool:
    """Return True for the path of an export, False for that of a record and for the name of a conversation."""
    from zipfile import ZipFile, is_zipfile

    from stepline.replay.record_file import RECORD_HEAD

    if not is_path(named):
        return False
    if not is_zipfile(named):
        return True
    with ZipFile(named) as archive:
        return RECORD_HEAD not in archive.namelist()


def _read_export(path: Path) -> CutConversation:
    """Return the conversation of an export. Raises the errors of `read_imported_documents` and of an import."""
    from stepline.local.evaluation.cut_case import CutConversation
    from stepline.local.evaluation.live_conversation import LiveConversation
    from stepline.local.imported_documents import read_imported_documents
    from stepline.ports.model import NoModel

    with LiveConversation("bundles.default", NoModel(), user="tester", settings={}) as imported:
        imported.take_history(read_imported_documents(path))
        return CutConversation(batches=imported.hydrated(), record=imported.record)


def _read_record(place: RecordPlace, named: str) -> CutConversation:
    """Return a conversation of a stage, or that of a record. Raises the errors of `load_record`."""
    from stepline.local.evaluation.cut_case import CutConversation
    from stepline.replay.load_record import load_record

    record = place.find(named)
    return CutConversation(batches=load_record(record.log, record.artifacts, record.lane), record=record)
