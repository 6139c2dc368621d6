"""A receipt of the deployed stage: its transitions are those of the emulator's own history, its tokens those of the model."""

from __future__ import annotations

import json

import pytest

from stepline.local.caller import PROJECT, TENANT
from stepline.local.stage.deployed import client
from stepline.model.ids import execution_name, make_lane
from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator

ASKED = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."


def history(stage, conversation):
    """Return how many states the executions of a conversation entered, each retry of a function included."""
    machine = client("stepfunctions", stage.deployed)
    machines = machine.list_state_machines()["stateMachines"]
    (arn,) = (one["stateMachineArn"] for one in machines if one["name"].endswith("-local-loop"))
    lane = make_lane(TENANT, PROJECT, conversation)
    entered = 0
    for epoch in {batch["state"]["epoch"] for batch in stage.log(conversation) if batch["state"]["epoch"]}:
        name = f"{arn.replace(':stateMachine:', ':execution:')}:{execution_name(lane, epoch)}"
        kinds = [event["type"] for event in machine.get_execution_history(executionArn=name)["events"]]
        entered += sum(kind.endswith("StateEntered") for kind in kinds)
        entered += kinds.count("TaskScheduled") - kinds.count("TaskStateEntered")
    return entered


def test_a_turn_s_receipt_has_the_transitions_of_its_execution_and_the_tokens_of_its_model(
    scripted, conversation
):
    word = a_word()
    scripted.send(ASKED.format(word=word), conversation)
    lines = scripted.command("cost", conversation, "--user", scripted.user, "--json").stdout.splitlines()
    turn, total = (json.loads(line) for line in lines)
    used = {line["what"]: line["quantity"] for line in turn["aws"]}
    assert used["transition"] == history(scripted, conversation)
    assert used["write unit"] > len(scripted.log(conversation))
    assert turn["attempts_unreported"] == 0
    assert total["aws_usd"] >= turn["aws_usd"] > 0
    spent = scripted.log(conversation)[-1]["state"]
    assert sum(line["output_tokens"] for line in turn["lines"]) == spent["output_tokens"]
