"""`stepline replay`: run recorded turns of conversations again, and show what differs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click
import msgspec
from msgspec.structs import replace

from stepline.errors import SteplineError
from stepline.local.command.argument import json_option, text_option
from stepline.local.command.content.recorded_source import RecordPlace, list_records, record_options
from stepline.local.counted import counted
from stepline.local.safe_text import clean_line, one_line
from stepline.model.version import CONTEXT_LAYOUTS, VERSIONS
from stepline.ports.model import DECISION_ROLE, DEFAULT_ROLE, Effort

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepline.replay.record_file import ConversationRecord
    from stepline.replay.replay_turn import ReplayAgent
    from stepline.replay.turn_report import Spent, TurnReport
    from stepline.settings import Settings

DIFFERENT: Final = 1
HEAD_LINE: Final = f"{'turn':32} {'outcome':9} {'rounds':>6} {'tokens':>17} {'dollars':>19}"


@click.command()
@click.argument("records", nargs=-1, required=True, metavar="CONVERSATION|FILE|FOLDER…")
@record_options
@click.option(
    "--turn", "turns", multiple=True, metavar="T", help="A turn, by its id or its number; default: all."
)
@text_option("--bundle", metavar="MODULE", help="Another bundle, a module of this folder.")
@text_option("--model", metavar="MODEL", help="Ask this model about every decision.")
@click.option(
    "--effort",
    type=click.Choice(get_args(Effort)),
    help="Ask the model with this effort about every decision.",
)
@click.option("--layout", type=click.Choice(list(CONTEXT_LAYOUTS)), help="Another layout of the context.")
@click.option("--version", type=click.Choice(list(VERSIONS)), help="Another version of the agent.")
@click.option(
    "--ask", "asks", is_flag=True, help="Ask the stage's model about requests that the record lacks."
)
@click.option(
    "--run-tools", is_flag=True, help="Run calls that the record lacks, except those with the effect `once`."
)
@click.option(
    "--threshold",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    metavar="PERCENT",
    help="The exit code is 1 if more of all turns differ.",
)
@json_option
def replay(
    *,
    records: tuple[str, ...],
    place: RecordPlace,
    turns: tuple[str, ...],
    threshold: int,
    as_json: bool,
    **choices: Any,
) -> None:
    """Run the turns of conversations again; show what differs.

    A name is a conversation of the local stage, or with --stage of a deployed one. A path is a record that `stepline export
    --record` wrote, or a folder of records.

    Requests that are equal are answered from the record, and so are calls of tools. Without --ask, --model and --effort
    no model is asked, and a turn ends at the first request that differs. Nothing is written to the stage.

    With several conversations, one that cannot be replayed is a line with its code, and the exit code is 1.
    """
    from stepline.local.terminal.json_lines import render_json_line

    names = list(list_records(records))
    if len(names) > 1 and turns:
        raise click.UsageError("--turn needs one conversation")
    done: list[TurnReport] = []
    failed = 0
    for number, named in enumerate(names):
        try:
            reports = _replay_one(place.find(named), turns, choices)
        except SteplineError as error:
            if len(names) == 1:
                raise
            failed += 1
            row = {"record": named, "code": error.reason, "message": str(error)}
            shown = (
                [render_json_line(row)] if as_json else [named, f"  {error.reason}: {one_line(str(error))}"]
            )
        else:
            done += reports
            rows = [named] if len(names) > 1 else []
            rows += [line for report in reports for line in render_turn_report(report)]
            shown = [render_json_line(msgspec.to_builtins(one)) for one in reports] if as_json else rows
        head = [] if number or as_json else [HEAD_LINE]
        for line in (*head, *shown):
            click.echo(line if as_json else clean_line(line))
    if not as_json:
        click.echo(summarise_reports(done, failed))
    differ = sum(report.outcome != "equal" for report in done)
    sys.exit(DIFFERENT if failed or differ * 100 > threshold * len(done) else 0)


def _replay_one(
    record: ConversationRecord, turns: Sequence[str], choices: Mapping[str, Any]
) -> list[TurnReport]:
    """Replay turns of a record. Raises its errors, before a turn is replayed."""
    from stepline.replay.load_record import load_record
    from stepline.replay.recorded_turn import find_turns
    from stepline.replay.replay_turn import replay_turns

    batches = load_record(record.log, record.artifacts, record.lane)
    recorded = find_turns(record.lane, batches, turns)
    settings = choose_settings(record.variables, bundle=batches[-1].state.bundle, choices=choices)
    return list(replay_turns(recorded, _agent(settings, choices), record.artifacts))


def choose_settings(variables: Mapping[str, str], *, bundle: str, choices: Mapping[str, Any]) -> Settings:
    """Return the settings of a replay: those of the stage and of the conversation's `bundle`, with the choices.

    Descriptors that only the functions have are left out.

    Raises InputError `bad_setting`.
    """
    from stepline.bootstrap.choice import bundle_settings
    from stepline.settings import Settings

    settings = Settings.from_env(variables)
    if choices.get("bundle"):
        settings = replace(settings, bundle=choices["bundle"])
    elif bundle:
        settings = bundle_settings(settings, bundle)
    if not Path(settings.descriptors_dir).is_dir():  # packaged with the functions, not in this folder
        settings = replace(settings, descriptors_dir="")
    config = dict(settings.bundle_props.get("config", {}))
    react = dict(config.get("react", {}))  # the strongest place of both
    if choices.get("version"):
        react["agent_version"] = choices["version"]
    if choices.get("layout"):
        react["context"] = {**react.get("context", {}), "layout": choices["layout"]}
    props = (
        {**settings.bundle_props, "config": {**config, "react": react}} if react else settings.bundle_props
    )
    return replace(settings, bundle_props=props)


def _agent(settings: Settings, choices: Mapping[str, Any]) -> ReplayAgent:
    """Return the agent of a replay; its bundle is a package of the current project, or of the runtime."""
    from stepline.bootstrap.choice import provider_of, roles_of
    from stepline.local.stage.deployed import PROJECT_FOLDER, REPOSITORY
    from stepline.replay.replay_turn import make_replay_agent

    sys.path[:0] = dict.fromkeys(map(str, (Path.cwd(), PROJECT_FOLDER, REPOSITORY)))
    own = {name: choices[name] for name in ("model", "effort") if choices.get(name)}
    if not (own or choices["asks"]):
        return make_replay_agent(settings, runs_tools=choices["run_tools"], own_lines=bool(choices["bundle"]))
    roles = roles_of(settings)
    decides = roles.get(DECISION_ROLE, roles[DEFAULT_ROLE])
    return make_replay_agent(
        settings,
        model=provider_of(settings),
        roles={**roles, DECISION_ROLE: replace(decides, **own)},
        asks_always=bool(own),
        runs_tools=choices["run_tools"],
        own_lines=bool(choices["bundle"]),
    )


def render_turn_report(report: TurnReport) -> Iterator[str]:
    """Yield the lines of a replayed turn: its row in the table, and below it what differs."""
    yield _row(report.turn_id, report.outcome, f"{len(report.rounds)}", report.recorded, report.replayed)
    if report.where:
        yield f"  {one_line(report.where)}"
    if report.answer_recorded != report.answer_replayed and report.outcome == "differs":
        yield f"  - {one_line(report.answer_recorded)}"
        yield f"  + {one_line(report.answer_replayed)}"


def summarise_reports(reports: Sequence[TurnReport], failed: int = 0) -> str:
    """Return the last line of the table; `failed` conversations could not be replayed."""
    equal = sum(report.outcome == "equal" for report in reports)
    asked = sum(report.asked for report in reports)
    without = f", {counted(failed, 'conversation')} not replayed" if failed else ""
    return f"{equal} of {counted(len(reports), 'turn')} equal{without}, {counted(asked, 'call')} of a model"


def _row(turn: str, outcome: str, rounds: str, before: Spent, after: Spent) -> str:
    tokens = [one.input_tokens + one.output_tokens for one in (before, after)]
    return (
        f"{turn:32} {outcome:9} {rounds:>6} {tokens[0]:>7,} → {tokens[1]:>7,} "
        f"{before.usd:>8.4f} → {after.usd:>8.4f}"
    )
