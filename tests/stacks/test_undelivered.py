"""Events that a function could not be given, or failed each time, wait in a queue that only they reach."""

import re
import subprocess

import pytest

from stepline_cdk.loop import RECEIVERS
from stepline_cdk.watch import RUNBOOK

from .conftest import ROOT

DAY_S = 24 * 3600


def queues(synthesis):
    """Each queue by the function whose events it keeps, with its logical id."""
    found = synthesis.resources("AWS::SQS::Queue")
    return {one["QueueName"].split("-")[-2]: (name, one) for name, one in found.items()}


def functions(synthesis):
    made = synthesis.resources("AWS::Lambda::Function").values()
    return {one["Handler"].split(".")[1]: one for one in made if one["Handler"].startswith("lambdas.")}


def targets(synthesis):
    """Each rule's target with the name of its function."""
    return [
        (next(name for name in functions(synthesis) if f"{name.title()}Live" in str(target["Arn"])), target)
        for rule in synthesis.resources("AWS::Events::Rule").values()
        for target in rule["Targets"]
    ]


@pytest.mark.parametrize("name", ["prod", "dev", "bedrock"])
def test_undelivered_and_failed_events_are_in_the_same_queue(request, name):
    stage = request.getfixturevalue(name)
    kept = queues(stage)
    assert set(kept) == set(RECEIVERS)
    called = [(function, target) for function, target in targets(stage) if function != "output"]
    assert {function for function, _ in called} == set(RECEIVERS)
    for function, target in called:
        logical_id = kept[function][0]
        assert target["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": [logical_id, "Arn"]}}
        failed = functions(stage)[function]["DeadLetterConfig"]
        assert failed == {"TargetArn": {"Fn::GetAtt": [logical_id, "Arn"]}}


def test_old_output_events_of_programs_are_not_kept(prod):
    (target,) = [target for function, target in targets(prod) if function == "output"]
    assert "DeadLetterConfig" not in target
    assert "DeadLetterConfig" not in functions(prod)["output"]


def test_a_queue_is_encrypted_and_keeps_for_two_weeks(prod):
    for _, queue in queues(prod).values():
        assert queue["SqsManagedSseEnabled"] is True
        assert queue["MessageRetentionPeriod"] == 14 * DAY_S


def test_a_queue_requires_tls_and_only_rules_of_the_stage_put_into_it(prod):
    policies = prod.resources("AWS::SQS::QueuePolicy").values()
    rules = set(prod.resources("AWS::Events::Rule"))
    assert len(policies) == len(RECEIVERS)
    for policy in policies:
        refusal, *allowed = policy["PolicyDocument"]["Statement"]
        assert refusal["Effect"] == "Deny"
        assert refusal["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert allowed
        for statement in allowed:
            assert statement["Principal"] == {"Service": "events.amazonaws.com"}
            assert statement["Action"] == "sqs:SendMessage"
            source = statement["Condition"]["ArnEquals"]["aws:SourceArn"]["Fn::GetAtt"][0]
            assert source in rules


def test_a_function_may_put_into_its_own_queue_alone_and_none_reads_one(prod):
    for name in prod.functions:
        role = f"{name.title()}Role"
        assert prod.roles.resources(role, "sqs:SendMessage") == (
            {f"<{name.title()}Undelivered>"} if name in RECEIVERS else set()
        )
    assert not any("sqs:ReceiveMessage" in prod.roles.actions(role) for role in prod.roles.trusts)


def test_a_function_is_made_after_its_right_to_the_queue(prod):
    made = prod.entries("AWS::Lambda::Function")
    for name in RECEIVERS:
        (entry,) = [one for one in made.values() if one["Properties"]["Handler"] == f"lambdas.{name}.handler"]
        assert any("RoleDefaultPolicy" in other for other in entry["DependsOn"]), name


def test_on_this_machine_there_is_none(local):
    assert not local.resources("AWS::SQS::Queue")
    assert "DeadLetterConfig" not in str(local.documents())


# --- what the runbook has people type

AWS = r"""
STAGE=prod
aws() {
  case "$1 $2" in
    "sqs get-queue-url") echo "https://queue/$4" ;;
    "sqs receive-message")
      if [ -s waiting ]; then head -1 waiting; else echo None; fi ;;
    "lambda invoke") echo "$4 $6" >> invoked; grep -q '"bad"' <<< "$6" && echo Unhandled || echo None ;;
    "sqs delete-message") echo "$6" >> deleted; sed -i 1d waiting ;;
  esac
}
"""
"""The AWS command line as far as the replay uses it: the messages that wait are lines of a file."""


def replay(folder, *events):
    """Run the runbook's replay of preflight; return what was invoked, what was deleted, and what was said."""
    page = (ROOT / RUNBOOK).read_text()
    (block,) = [one for one in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "replay()" in one]
    functions_only = block.partition("\n\n")[0]
    waiting = folder / "waiting"
    waiting.write_text("".join(f"handle-{at}\t{event}\n" for at, event in enumerate(events)))
    done = subprocess.run(
        ["bash", "-c", f"{AWS}\n{functions_only}\nreplay preflight"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = {
        name: (folder / name).read_text().splitlines() if (folder / name).exists() else []
        for name in ("invoked", "deleted")
    }
    return lines["invoked"], lines["deleted"], done.stdout


def test_a_replay_gives_every_event_to_its_function_and_takes_it_away(tmp_path):
    events = ['{"detail": {"key": "a b"}}', '{"detail": "two"}']
    invoked, deleted, said = replay(tmp_path, *events)
    assert invoked == [f"stepline-prod-preflight:live {event}" for event in events]
    assert deleted == ["handle-0", "handle-1"]
    assert said.split() == ["replayed", "replayed"]


def test_a_replay_stops_at_an_event_that_fails_again_and_leaves_it(tmp_path):
    invoked, deleted, said = replay(tmp_path, '{"good": 1}', '{"bad": 1}', '{"later": 1}')
    assert len(invoked) == 2
    assert deleted == ["handle-0"]
    assert said.splitlines() == ["replayed", "failed again: Unhandled"]


def test_a_replay_of_nothing_ends(tmp_path):
    assert replay(tmp_path) == ([], [], "")
