"""`stepline replay`: run recorded turns of a conversation again, and show what differs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click
import msgspec
from msgspec.structs import replace

from stepline.errors import DependencyError
from stepline.local.command.argument import conversation_argument, json_option, text_option
from stepline.local.counted import counted
from stepline.local.safe_text import clean_line, one_line
from stepline.model.version import CONTEXT_LAYOUTS, VERSIONS
from stepline.ports.model import DECISION_ROLE, DEFAULT_ROLE, Effort

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepline.local.stage.deployed import LocalStage
    from stepline.replay.replay_turn import ReplayAgent
    from stepline.replay.turn_report import Spent, TurnReport
    from stepline.settings import Settings

FUNCTION: Final = "stepline-local-decide"
DIFFERENT: Final = 1


@click.command()
@conversation_argument
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
    help="The exit code is 1 if more of the turns differ.",
)
@json_option
def replay(
    *, conversation: str, turns: tuple[str, ...], threshold: int, as_json: bool, **choices: Any
) -> None:
    """Run the turns of a conversation again; show what differs.

    The conversation is one of the local stage.

    Requests that are equal are answered from the record, and so are calls of tools. Without --ask, --model and --effort
    no model is asked, and a turn ends at the first request that differs. Nothing is written to the stage.
    """
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.model.ids import make_lane
    from stepline.replay.load_record import load_record
    from stepline.replay.recorded_turn import find_turns
    from stepline.replay.replay_turn import replay_turns

    stage = find_stage()
    lane = make_lane(TENANT, PROJECT, conversation)
    log, artifacts = open_log(stage)
    batches = load_record(log, artifacts, lane)
    recorded = find_turns(lane, batches, turns)
    settings = choose_settings(read_variables(stage), bundle=batches[-1].state.bundle, choices=choices)
    differ = 0
    reports = []
    for report in replay_turns(recorded, _agent(settings, choices), artifacts):
        differ += report.outcome != "equal"
        reports.append(report)
        if as_json:
            click.echo(render_json_line(msgspec.to_builtins(report)))
    if not as_json:
        for line in render_reports(reports):
            click.echo(clean_line(line))
    sys.exit(DIFFERENT if differ * 100 > threshold * len(reports) else 0)


def read_variables(stage: LocalStage) -> Mapping[str, str]:
    """Return the variables of the stage's function that decides. Secret. Raises DependencyError `not_running`."""
    from botocore.exceptions import BotoCoreError, ClientError

    from stepline.local.stage.deployed import client

    try:
        found = client("lambda", stage).get_function_configuration(FunctionName=FUNCTION)
    except (BotoCoreError, ClientError) as error:
        raise DependencyError("the stage does not answer: stepline up", code="not_running") from error
    variables: dict[str, str] = found.get("Environment", {}).get("Variables", {})
    return variables


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

    sys.path[:0] = [str(Path(PROJECT_FOLDER)), str(REPOSITORY)]
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


def render_reports(reports: Sequence[TurnReport]) -> Iterator[str]:
    """Yield a table of replayed turns: a line each, below it what differs, and a line for all of them."""
    yield f"{'turn':32} {'outcome':9} {'rounds':>6} {'tokens':>17} {'dollars':>19}"
    for report in reports:
        yield _row(report.turn_id, report.outcome, f"{len(report.rounds)}", report.recorded, report.replayed)
        if report.where:
            yield f"  {one_line(report.where)}"
        if report.answer_recorded != report.answer_replayed and report.outcome == "differs":
            yield f"  - {one_line(report.answer_recorded)}"
            yield f"  + {one_line(report.answer_replayed)}"
    equal = sum(report.outcome == "equal" for report in reports)
    asked = sum(report.asked for report in reports)
    yield f"{equal} of {counted(len(reports), 'turn')} equal, {counted(asked, 'call')} of a model"


def _row(turn: str, outcome: str, rounds: str, before: Spent, after: Spent) -> str:
    tokens = [one.input_tokens + one.output_tokens for one in (before, after)]
    return (
        f"{turn:32} {outcome:9} {rounds:>6} {tokens[0]:>7,} → {tokens[1]:>7,} "
        f"{before.usd:>8.4f} → {after.usd:>8.4f}"
    )
