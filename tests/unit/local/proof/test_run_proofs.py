"""Running proofs: every row gets a verdict, a failed one ends nothing, and no row begins that may exceed the bound."""

from dataclasses import replace
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ParamValidationError

from stepline.adapters.system import SystemClock
from stepline.errors import AuthError, DependencyError
from stepline.inspection.receipt import Receipts, TurnReceipt
from stepline.inspection.rounds import Tokens
from stepline.local.caller import Caller as StageCaller
from stepline.local.client.http_api import HttpApi
from stepline.local.proof.known_drift import DRIFTS
from stepline.local.proof.proof_row import NotHeldError, Proof
from stepline.local.proof.proof_table import PROOFS
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.run_proofs import ENDED, TURN_USD, Purse, run_proofs
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import Conversation

TOKENS = Tokens(**dict.fromkeys(Tokens.__struct_fields__, 0))


def row(name, error=None, turns=1, needs=""):
    def prove(_stage, conversation):
        if error:
            raise error
        return {"seen": conversation}

    return Proof(name=name, claim=f"{name} holds.", prove=prove, turns=turns, needs=needs)


@pytest.fixture
def run():
    with served(ApiServer(Caller(Conversation().ports))) as url:
        caller = StageCaller(url="", user="u", home=Path(), token=lambda: TOKEN, api_url=url)

        def run(*proofs, usd=2.0, is_free=False, save=lambda _: None, local=False):
            stage = ProvedStage(
                name="trial",
                region="eu-central-1",
                caller=replace(caller, local=local),
                api=HttpApi(url, lambda: TOKEN),
                mint=lambda _role, _ttl_s: TOKEN,
                aws=lambda _service: None,
                machine_arn="",
                is_free=is_free,
            )
            return run_proofs(stage, proofs, usd=usd, clock=SystemClock(), progress=lambda _: None, save=save)

        yield run


def test_a_failed_row_does_not_end_the_others(run):
    report = run(
        row("first"),
        row("second", NotHeldError("a batch is lost")),
        row("third", DependencyError("no answer", code="no_answer")),
        row("fourth", NotRunError("no right"), needs="states:StopExecution"),
        row("last"),
    )
    assert [(one.name, one.verdict, one.why, one.code) for one in report.rows] == [
        ("first", "held", "", ""),
        ("second", "failed", "a batch is lost", ""),
        ("third", "failed", "no answer", "no_answer"),
        ("fourth", "not run", "no right; it needs states:StopExecution", ""),
        ("last", "held", "", ""),
    ]
    assert not report.ok
    assert report.rows[0].evidence["seen"].startswith("proof-first-")


def test_rows_that_are_not_run_do_not_fail_the_report_and_are_not_held(run):
    report = run(row("first", NotRunError("no right")))
    assert report.ok
    assert report.rows[0].verdict == "not run"


def refusal(code, status=403):
    return ClientError(
        {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetCostAndUsage"
    )


@pytest.mark.parametrize(
    "error",
    [
        refusal("AccessDeniedException"),
        refusal("ExpiredToken"),
        refusal("400", 400),  # the emulator's answer for a service that it does not have
        NoCredentialsError(),
        EndpointConnectionError(endpoint_url="https://ce.invalid"),
        AuthError("there is no profile 'work'", code="cloud_account"),
    ],
    ids=["denied", "expired", "absent", "no credentials", "no endpoint", "no profile"],
)
def test_a_row_without_a_right_or_a_service_is_not_run(run, error):
    report = run(row("first", error, needs="ce:GetCostAndUsage"))
    assert report.rows[0].verdict == "not run"
    assert report.rows[0].why.endswith("; it needs ce:GetCostAndUsage")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (refusal("ValidationException", 400), "aws"),
        (ParamValidationError(report="x"), "aws"),
        (KeyError("a"), "internal"),
    ],
)
def test_another_error_of_a_row_is_its_result(run, error, code):
    report = run(row("first", error), row("second"))
    assert [(one.verdict, one.code) for one in report.rows] == [("failed", code), ("held", "")]


def test_an_unexpected_error_is_named_by_its_type(run):
    assert run(row("first", KeyError("a"))).rows[0].why == "KeyError: 'a'"


def test_only_an_emulated_stage_has_drift(run):
    tried = replace(row("first"), drift=("sizes",))
    here, there = run(tried, local=True), run(tried)
    assert here.rows[0].drift == ("sizes",)
    assert here.drift == DRIFTS
    assert (there.rows[0].drift, there.drift) == ((), {})


def test_the_report_is_saved_before_the_first_row_and_after_each(run):
    saved = []
    run(row("first"), row("second", KeyError("a")), save=saved.append)
    assert [[one.verdict for one in report.rows] for report in saved] == [
        ["not run", "not run"],
        ["held", "not run"],
        ["held", "failed"],
    ]
    assert saved[1].rows[1].why == ENDED


def test_no_row_begins_that_may_exceed_the_bound(run):
    report = run(row("first"), row("free", turns=0), row("second"), row("free", turns=0), usd=TURN_USD * 1.5)
    assert [one.verdict for one in report.rows] == ["held", "held", "not run", "held"]
    assert "--usd" in report.rows[2].why
    assert [one.usd for one in report.rows] == [None, 0.0, 0.0, 0.0]
    assert not report.priced


def test_a_free_model_has_no_bound_and_no_cost(run):
    report = run(row("first"), row("second"), usd=0.0, is_free=True)
    assert [(one.verdict, one.usd) for one in report.rows] == [("held", 0.0)] * 2
    assert report.priced


def receipts(usd, *, priced=True, aws_usd=0.0):
    turn = TurnReceipt(
        turn_id="t", started_at="", elapsed_ms=1, model_ms=1, tools_ms=1, tokens=TOKENS, usd=usd, priced=priced,
        rounds=(), other=(), aws_usd=aws_usd,
    )  # fmt: skip
    return Receipts(turns=(turn,), tokens=TOKENS, usd=usd, priced=priced, aws_usd=aws_usd)


def test_the_next_row_is_estimated_by_the_dearest_turn_so_far():
    purse = Purse(3.0, is_free=False, pays_aws=True)
    assert purse.pay(row("first"), receipts(1.4, aws_usd=0.1)) == 1.5
    purse.check(row("next"))
    purse.pay(row("next"), receipts(0.1))
    with pytest.raises(NotRunError):
        purse.check(row("third"))


def test_an_unknown_price_counts_as_estimated():
    purse = Purse(TURN_USD * 1.5, is_free=False, pays_aws=True)
    assert purse.pay(row("first"), receipts(0.0, priced=False)) is None
    with pytest.raises(NotRunError):
        purse.check(row("second"))


def test_a_request_that_aws_charges_counts_towards_the_bound():
    purse, asking = Purse(0.015, is_free=True, pays_aws=True), replace(row("bill", turns=0), usd=0.01)
    purse.check(asking)
    assert purse.pay(asking, None) == 0.01
    with pytest.raises(NotRunError):
        purse.check(asking)


def test_an_emulated_stage_pays_for_no_service():
    purse = Purse(0.0, is_free=True, pays_aws=False)
    assert purse.pay(row("first"), receipts(0.0, aws_usd=1.0)) == 0.0
    purse.check(replace(row("bill", turns=0), usd=0.01))


def test_rows_have_different_names_a_sentence_each_and_known_drift():
    assert len({proof.name for proof in PROOFS}) == len(PROOFS)
    assert {name for proof in PROOFS for name in proof.drift} <= DRIFTS.keys()
    assert all(proof.claim[0].isupper() and proof.claim.endswith(".") for proof in PROOFS)
