"""Run an evaluation set: each case several times, alone, and its rates against a threshold and a baseline.

Source: docs/how-to/evaluate.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias

import msgspec

from stepline.errors import InputError, NotFoundError, SteplineError
from stepline.ingress.fork import ForkPoint
from stepline.local.evaluation.case_judge import CaseJudge, Finding, outcome_of
from stepline.local.evaluation.live_conversation import LiveConversation, LiveTurn, costs_of
from stepline.model.base import Value
from stepline.settings import Settings
from stepline.testing import LANE

if TYPE_CHECKING:
    from stepline.local.evaluation.case_file import Case, CaseFile, StartConversation
    from stepline.local.evaluation.evaluated_model import EvaluatedModel
    from stepline.model.ids import Lane
    from stepline.replay.record_file import ConversationRecord

Z: Final = 1.959964
"""The normal quantile of a confidence of 95 %."""
VERSION: Final = 1
ANSWER_CHARS: Final = 2_000
BASELINE_BYTES: Final = 64 * 1024 * 1024


class CaseRun(Value, omit_defaults=False):
    """One run of a case. `error` is set if it could not be played; `left_out` are checks that no model judged.

    Without `priced` some calls of models have no known price.
    """

    solved: bool
    failed: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()
    error: str = ""
    outcome: str = ""
    answer: str = ""
    calls: tuple[str, ...] = ()
    rounds: int = 0
    tokens: int = 0
    usd: float = 0.0
    priced: bool = True
    judge_usd: float = 0.0


class CaseResult(Value, omit_defaults=False):
    """The runs of a case. `broken` is the error of a case that could not be read; it has no runs.

    `low` and `high` are the 95 % interval of its rate (Wilson). `against` is its rate in the baseline, None without one.
    `ok`: its rate is not below the threshold, nor worse than in the baseline; `why` says which.
    """

    name: str
    about: str
    runs: tuple[CaseRun, ...] = ()
    broken: str = ""
    rate: float = 0.0
    low: float = 0.0
    high: float = 1.0
    usd_per_solved: float | None = None
    against: float | None = None
    ok: bool = True
    why: str = ""

    @property
    def solved(self) -> int:
        """The number of runs that solved the case."""
        return sum(run.solved for run in self.runs)


class EvaluationReport(Value, omit_defaults=False):
    """The results of a set with one model. `gone` are cases of the baseline that the set no longer has."""

    version: int
    model: str
    repeats: int
    threshold: float
    cases: tuple[CaseResult, ...]
    solved: int
    runs: int
    rate: float
    low: float
    high: float
    usd: float
    judge_usd: float
    usd_per_solved: float | None
    priced: bool
    gone: tuple[str, ...]
    ok: bool


FindConversation: TypeAlias = Callable[[str], "ConversationRecord"]


def refuse_conversation(name: str) -> NoReturn:
    """Refuse the name of a conversation where there is no stage. Raises InputError `not_deployed`."""
    raise InputError(f"there is no stage with the conversation {name}", code="not_deployed")


def evaluate_cases(
    cases: Sequence[CaseFile],
    model: EvaluatedModel,
    *,
    bundle: str,
    repeats: int = 1,
    threshold: float = 1.0,
    baseline: EvaluationReport | None = None,
    conversations: FindConversation = refuse_conversation,
    progress: Callable[[CaseResult], None] = lambda _: None,
) -> EvaluationReport:
    """Run the cases and return their report. No error of a case reaches another one.

    `conversations` finds the conversations of a stage that cases continue.
    """
    before = {one.name: one for one in baseline.cases if one.runs} if baseline else {}
    results = []
    for file in cases:
        result = _judge_result(
            _run_case(file, model, (bundle, conversations), repeats), threshold, before.get(file.name)
        )
        progress(result)
        results.append(result)
    runs = [run for result in results for run in result.runs]
    solved = sum(run.solved for run in runs)
    low, high = wilson(solved, len(runs))
    return EvaluationReport(
        version=VERSION,
        model=model.name,
        repeats=repeats,
        threshold=threshold,
        cases=tuple(results),
        solved=solved,
        runs=len(runs),
        rate=solved / len(runs) if runs else 0.0,
        low=low,
        high=high,
        usd=sum(run.usd for run in runs),
        judge_usd=sum(run.judge_usd for run in runs),
        usd_per_solved=_usd_per_solved(runs),
        priced=all(run.priced for run in runs),
        gone=tuple(sorted(before.keys() - {one.name for one in results})),
        ok=all(result.ok for result in results),
    )


def wilson(solved: int, runs: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate by Wilson's score, which holds for few runs too; (0, 1) without any.

    Source: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927.
    """
    if not runs:
        return 0.0, 1.0
    rate, square = solved / runs, Z * Z
    centre = rate + square / (2 * runs)
    width = Z * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs * runs))
    scale = 1 + square / runs
    low = 0.0 if solved == 0 else (centre - width) / scale
    return low, 1.0 if solved == runs else (centre + width) / scale


def is_worse(now: CaseResult, before: CaseResult) -> bool:
    """Return True if a case's rate has fallen: from always to never, or by more than chance explains.

    By chance: the 95 % interval of the difference of both rates contains 0 (Newcombe's, from Wilson's intervals).
    """
    if now.rate >= before.rate:
        return False
    if before.rate == 1.0 and now.rate == 0.0:
        return True
    rise = math.hypot(now.high - now.rate, before.rate - before.low)
    return now.rate - before.rate + rise < 0


def read_baseline(path: Path) -> EvaluationReport:
    """Return the report that `--json-out` wrote. Raises InputError `baseline_invalid`."""
    try:
        with path.open("rb") as file:
            body = file.read(BASELINE_BYTES)
        report = msgspec.json.decode(body, type=EvaluationReport)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", code="baseline_invalid") from error
    except msgspec.MsgspecError as error:
        raise InputError(f"{path} is no report of an evaluation: {error}", code="baseline_invalid") from error
    if report.version != VERSION:
        raise InputError(f"{path} is a report of version {report.version}", code="baseline_invalid")
    return report


# --- one case


def _run_case(
    file: CaseFile, model: EvaluatedModel, agent: tuple[str, FindConversation], repeats: int
) -> CaseResult:
    if file.case is None:
        return CaseResult(name=file.name, about="", broken=file.error)
    runs = tuple(_run_once(file, file.case, model, *agent) for _ in range(repeats))
    solved = sum(run.solved for run in runs)
    low, high = wilson(solved, repeats)
    return CaseResult(
        name=file.name,
        about=file.case.about,
        runs=runs,
        rate=solved / repeats,
        low=low,
        high=high,
        usd_per_solved=_usd_per_solved(runs),
    )


def _judge_result(result: CaseResult, threshold: float, before: CaseResult | None) -> CaseResult:
    against = before.rate if before else None
    if result.broken:
        why = result.broken
    elif result.rate < threshold:
        why = f"solved in {result.solved} of {len(result.runs)} runs, the threshold is {threshold:.0%}"
    elif before and is_worse(result, before):
        why = f"worse than the baseline: {result.rate:.0%} of the runs, {before.rate:.0%} before"
    else:
        why = ""
    return msgspec.structs.replace(result, against=against, ok=not why, why=why)


def _usd_per_solved(runs: Sequence[CaseRun]) -> float | None:
    """Return the dollars of all runs for each solved one; None if none is solved or a price is not known."""
    solved = sum(run.solved for run in runs)
    return sum(run.usd for run in runs) / solved if solved and all(run.priced for run in runs) else None


def _run_once(
    file: CaseFile, case: Case, model: EvaluatedModel, bundle: str, conversations: FindConversation
) -> CaseRun:
    """Play and judge a case. An error of any kind is the result of this run."""
    try:
        with open_conversation(file, case, model, bundle, conversations) as conversation:
            if case.canaries is not None:
                from stepline.local.evaluation.canary_session import find_lost_canaries

                lost = find_lost_canaries(conversation, case.canaries, file.folder)
                run = CaseRun(solved=not lost, failed=lost, **costs_of(conversation.bill()))
            else:
                run = _play(file, case, model, conversation)
            if not run.error:
                conversation.write_recording(file.recording)
            return run
    except Exception as error:  # noqa: BLE001 - the edge of a case: the report has its error, the next case runs
        return CaseRun(solved=False, error=describe_failure(error))


def describe_failure(error: Exception) -> str:
    """Return an error as the report shows it: its code or its type, and its sentence."""
    code = error.reason if isinstance(error, SteplineError) else type(error).__name__
    return f"{code}: {error}"[:1_000]


def open_conversation(
    file: CaseFile,
    case: Case,
    model: EvaluatedModel,
    bundle: str,
    conversations: FindConversation = refuse_conversation,
) -> LiveConversation:
    """Return the conversation of a case, as far as it had gone when the case begins. Raises its errors."""
    variables = {**model.variables, **case.settings}
    module = case.bundle or bundle
    start = case.conversation and _Start.find(file, case.conversation, conversations)
    if start and start.bundle:  # the agent is a further bundle of this name, as it was on the stage
        variables["STEPLINE_BUNDLE"] = Settings.from_env({}).bundle
        variables["STEPLINE_BUNDLES"] = json.dumps({start.bundle: module})
    settings = Settings.from_env({"STEPLINE_BUNDLE": module, **variables})
    conversation = LiveConversation(
        module,
        model.client(file, settings),
        user=start.owner if start else case.user,
        settings=variables,
        lane=start.lane if start else LANE,
    )
    try:
        if start:
            with _placed(file, start.key):
                conversation.take_fork(start.record, start.point)
        if case.history:
            from stepline.local.imported_documents import read_imported_documents

            conversation.take_history(read_imported_documents(file.folder / case.history))
        for past in case.so_far:
            conversation.take_past(past, file.folder)
    except Exception:
        conversation.close()
        raise
    return conversation


@dataclass(frozen=True, kw_only=True)
class _Start:
    """The conversation that a case continues as a fork in `lane`: its record, its owner and the name of its bundle."""

    record: ConversationRecord
    point: ForkPoint
    lane: Lane
    owner: str
    bundle: str
    key: str

    @classmethod
    def find(cls, file: CaseFile, start: StartConversation, conversations: FindConversation) -> Self:
        """Return the record. Raises the errors of its file or its stage, with the place in the case."""
        from stepline.replay.record_file import read_record_file

        with _placed(file, "conversation.from"):
            record = (
                read_record_file(file.folder / start.source) if start.is_file else conversations(start.source)
            )
            tail = record.log.tail(record.lane, consistent=True)
            if tail is None:
                raise NotFoundError(f"there is no conversation {record.lane.conversation}")
        name = f"case-{sha256(record.lane.conversation.encode()).hexdigest()[:8]}"  # the same in every run
        point = start.at.fork_point if start.at else ForkPoint(kind="batch", at=str(tail.n))
        return cls(
            record=record,
            point=point,
            lane=msgspec.structs.replace(record.lane, conversation=name),
            owner=tail.state.owner,
            bundle=tail.state.bundle,
            key="conversation.at" if start.at else "conversation.from",
        )


@contextmanager
def _placed(file: CaseFile, key: str) -> Iterator[None]:
    """Put the place of a key before the sentence of an error, whose code stays."""
    try:
        yield
    except SteplineError as error:
        raise InputError(f"{file.place(key)}: {error}", code=error.reason) from error


def _play(file: CaseFile, case: Case, model: EvaluatedModel, conversation: LiveConversation) -> CaseRun:
    turns: list[LiveTurn] = []
    error = ""
    for step in case.steps:
        try:
            turns.append(conversation.play(step, file.folder))
        except Exception as failure:  # noqa: BLE001 - as in `_run_once`; the turns before it are still shown
            error = describe_failure(failure)
            break
    facts: Mapping[str, Any] = _facts(turns) if turns else {}
    if error:
        return CaseRun(solved=False, error=error, **facts)
    judging = conversation.judging if model.judges else None
    verdict = CaseJudge(conversation=conversation, case=case, model=judging).judge(turns)
    if len(verdict.left_out) == len(case.checks):
        error = describe_failure(InputError("the scripted model judges nothing", code="nothing_judged"))
    return CaseRun(
        solved=not verdict.failed and not error,
        failed=verdict.failed,
        left_out=verdict.left_out,
        error=error,
        judge_usd=verdict.judge_usd,
        **facts,
    )


def _facts(turns: Sequence[LiveTurn]) -> dict[str, Any]:
    last = turns[-1].played.ended
    return {
        "outcome": outcome_of(last),
        "answer": last.answer[:ANSWER_CHARS],
        "calls": tuple(_calls(turns)),
        "rounds": sum(turn.played.ended.rounds for turn in turns),
        "tokens": sum(turn.tokens for turn in turns),
        "usd": sum(turn.usd for turn in turns),
        "priced": all(turn.priced for turn in turns),
    }


def _calls(turns: Sequence[LiveTurn]) -> Iterator[str]:
    for turn in turns:
        yield from (f"{call.tool_id} {call.status}" for call in turn.calls)
