"""The report of proofs: what held, what did not, what was not run, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from stepline.model.base import Value

ProofVerdict: TypeAlias = Literal["held", "failed", "not run"]


class ProofResult(Value, omit_defaults=False):
    """A row of the report. `why` says why it failed or was not run; `code` is the stable code of an error, or "".

    `drift` names what a row that is held on the emulator does not prove. `evidence` has the ids, codes and numbers that were seen. `usd` is None if a price is not known.
    """

    name: str
    claim: str
    verdict: ProofVerdict
    why: str = ""
    code: str = ""
    conversation: str = ""
    evidence: Mapping[str, str | int] = {}
    seconds: float = 0.0
    usd: float | None = 0.0
    drift: tuple[str, ...] = ()


class StageVersions(Value, omit_defaults=False):
    """The state machine's name and revision, and the version and the runtime of each function that serves.

    `unknown` is the reason if they could not be read, or "".
    """

    machine: str = ""
    revision: str = ""
    functions: Mapping[str, str] = {}
    unknown: str = ""


class ProofReport(Value, omit_defaults=False):
    """All rows. `models` answered, `usd` is the sum of known costs, and `priced` is true if all are known.

    `version` and `python` are those of this machine, `drift` has the known differences of the emulator, by their name.
    """

    version: str
    python: str
    stage: str
    region: str
    started_at: str
    usd_bound: float
    versions: StageVersions = StageVersions()
    drift: Mapping[str, str] = {}
    seconds: float = 0.0
    models: tuple[str, ...] = ()
    usd: float = 0.0
    priced: bool = True
    rows: tuple[ProofResult, ...] = ()

    @property
    def ok(self) -> bool:
        """True if no row failed."""
        return all(row.verdict != "failed" for row in self.rows)


def summarise_proofs(report: ProofReport) -> str:
    """Return the totals in a sentence."""
    verdicts = [row.verdict for row in report.rows]
    cost = f"${report.usd:.4f}" if report.priced else f"${report.usd:.4f} and models without a known price"
    return (
        f"{verdicts.count('held')} held, {verdicts.count('failed')} failed, {verdicts.count('not run')} not run;"
        f" {report.seconds:.0f} s, {cost}"
    )
