"""Run proofs against a stage, one after the other and within a bound of dollars."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from msgspec.structs import replace

from stepline.errors import SteplineError
from stepline.inspection.receipt import Receipts
from stepline.local.proof.known_drift import DRIFTS
from stepline.local.proof.obstacle import find_obstacle
from stepline.local.proof.proof_report import ProofReport, ProofResult, StageVersions
from stepline.local.proof.proof_row import NotHeldError, Proof
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.model.ids import utc
from stepline.ports.clock import Clock

TURN_USD: Final = 0.06
"""The estimate of a turn: four rounds of ten thousand tokens, mostly cached, and a thousand of output, at $3 and $15 a million."""
ABSENT: Final = ("not_found", "conversation_deleted")
"""Refusals of a receipt: the row had no turn, or has deleted its conversation."""
AWS: Final = "aws"
"""The code of an error of AWS that is neither a missing right nor a missing service."""
INTERNAL: Final = "internal"
"""The code of an error that the row itself did not expect."""
ENDED: Final = "the run ended before this row"


def estimate_usd(proofs: Iterable[Proof], turn_usd: float = TURN_USD) -> float:
    """Return the estimate for these rows."""
    return sum(proof.turns * turn_usd + proof.usd for proof in proofs)


class Purse:
    """The money of a run: what is spent, and what a turn costs at most; 0 for a free model."""

    def __init__(self, bound_usd: float, *, is_free: bool, pays_aws: bool) -> None:
        """Begin with nothing spent; an emulated stage pays for no service of AWS."""
        self._pays_aws = pays_aws
        self.bound_usd = bound_usd
        self.spent_usd = 0.0
        self.priced = True
        self._turn_usd = 0.0 if is_free else TURN_USD
        self._charged_usd = 0.0

    def check(self, proof: Proof) -> None:
        """Raise NotRunError if a row may exceed the bound; turns without a known price count as estimated."""
        estimated = self._estimate(proof)
        if estimated and self._charged_usd + estimated > self.bound_usd:
            raise NotRunError(f"it may cost more than is left of ${self.bound_usd:.2f}: --usd sets the bound")

    def _estimate(self, proof: Proof) -> float:
        return proof.turns * self._turn_usd + self._fixed(proof)

    def _fixed(self, proof: Proof) -> float:
        return proof.usd if self._pays_aws else 0.0

    def pay(self, proof: Proof, receipts: Receipts | None) -> float | None:
        """Add the cost of a row and return it; None if a price is not known. Without receipts it counts as estimated."""
        estimated, fixed = self._estimate(proof), self._fixed(proof)
        if receipts is None:
            self._charged_usd += estimated
            self.spent_usd += fixed
            return fixed if estimated == fixed else None
        usd = fixed + receipts.usd + (receipts.aws_usd if self._pays_aws else 0.0)
        self.spent_usd += usd
        self.priced = self.priced and receipts.priced
        self._charged_usd += usd if receipts.priced else max(usd, estimated)
        if self._turn_usd and receipts.turns:
            self._turn_usd = max(self._turn_usd, usd / len(receipts.turns))
        return usd if receipts.priced else None


def run_proofs(
    stage: ProvedStage,
    proofs: Sequence[Proof],
    *,
    usd: float,
    clock: Clock,
    progress: Callable[[ProofResult], None],
    save: Callable[[ProofReport], None] = lambda _: None,
    versions: StageVersions | None = None,
) -> ProofReport:
    """Run every row, also after one that failed, and report each; rows that may exceed `usd` are not run.

    `save` gets the report before the first row and after each, with the rows to come as `not run`: an interrupt loses none.
    """
    began, began_s = utc(clock.now()), clock.monotonic_s()
    purse = Purse(usd, is_free=stage.is_free, pays_aws=not stage.caller.local)
    rows, models = list[ProofResult](), dict[str, None]()
    report = ProofReport(
        version=version("stepline"),
        python=python_version(),
        stage=stage.name,
        region=stage.region,
        started_at=began,
        usd_bound=usd,
        versions=versions or StageVersions(),
        drift=DRIFTS if stage.caller.local else {},
        rows=tuple(map(_pending, proofs)),
    )
    save(report)
    for number, proof in enumerate(proofs, 1):
        row_s, conversation = clock.monotonic_s(), f"proof-{proof.name}-{secrets.token_hex(4)}"
        outcome = try_proof(stage, proof, conversation, purse)
        receipts, outcome = _read_receipts(stage, proof, conversation, outcome)
        spent = receipts is not None or outcome.verdict != "not run"
        cost = purse.pay(proof, receipts) if spent else 0.0
        models |= dict.fromkeys(_models(receipts))
        result = replace(
            outcome,
            conversation=conversation if receipts else "",
            seconds=round(clock.monotonic_s() - row_s, 2),
            usd=cost,
            drift=proof.drift if stage.caller.local else (),
        )
        progress(result)
        rows.append(result)
        report = replace(
            report,
            seconds=round(clock.monotonic_s() - began_s, 2),
            models=tuple(models),
            usd=purse.spent_usd,
            priced=purse.priced and all(row.usd is not None for row in rows),
            rows=(*rows, *map(_pending, proofs[number:])),
        )
        save(report)
    return report


def _pending(proof: Proof) -> ProofResult:
    return ProofResult(name=proof.name, claim=proof.claim, verdict="not run", why=ENDED)


def try_proof(stage: ProvedStage, proof: Proof, conversation: str, purse: Purse) -> ProofResult:
    """Return the verdict of a row, the reason and the code if it is not held, and its evidence."""
    outcome = ProofResult(name=proof.name, claim=proof.claim, verdict="held")
    try:
        purse.check(proof)
        return replace(outcome, evidence=proof.prove(stage, conversation))
    except NotHeldError as error:
        return replace(outcome, verdict="failed", why=str(error))
    except Exception as error:  # noqa: BLE001 - an error of one row is its result: the report has all of them
        if reason := find_obstacle(error):
            needed = f"; it needs {proof.needs}" if proof.needs else ""
            return replace(outcome, verdict="not run", why=f"{reason}{needed}")
        return _failed(outcome, error)


def _failed(outcome: ProofResult, error: Exception) -> ProofResult:
    if isinstance(error, SteplineError):
        return replace(outcome, verdict="failed", why=str(error), code=error.reason)
    if isinstance(error, (BotoCoreError, ClientError)):
        return replace(outcome, verdict="failed", why=str(error), code=AWS)
    return replace(outcome, verdict="failed", why=f"{type(error).__name__}: {error}", code=INTERNAL)


def _read_receipts(
    stage: ProvedStage, proof: Proof, conversation: str, outcome: ProofResult
) -> tuple[Receipts | None, ProofResult]:
    """Return the receipts of a row, None without a turn, and its outcome: failed if its cost cannot be read."""
    if not proof.turns:
        return None, outcome
    try:
        return stage.api.get_receipts(conversation), outcome
    except SteplineError as error:
        if error.reason in ABSENT or outcome.verdict != "held":
            return None, outcome
        return None, _failed(outcome, error)


def _models(receipts: Receipts | None) -> list[str]:
    return [one.model for turn in receipts.turns for one in turn.rounds] if receipts else []


def make_folder_name(at: datetime, stage: str) -> str:
    """Return the default folder of a report, such as `proof-trial-20261129T101500`."""
    return f"proof-{stage}-{at.astimezone(UTC):%Y%m%dT%H%M%S}"
