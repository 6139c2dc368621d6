"""The model of a process without a key in its settings."""

import asyncio

import pytest

from stepline import BaseWorkflow, InProcess, Lane, ModelRefused, Settings, in_memory
from stepline.bootstrap.model_choice import model_of
from stepline.log.journal import Journal


class Quiet(BaseWorkflow):
    pass


def test_without_a_key_a_process_is_refused_in_one_sentence_before_its_message_is_in_the_log(caplog):
    runtime = InProcess(in_memory(Settings.from_env({})))
    lane = Lane(tenant="acme", project="shop", conversation="c-1")
    with pytest.raises(ModelRefused, match="set ANTHROPIC_API_KEY") as refused:
        asyncio.run(Quiet(runtime, lane, user="ada").process({"text": "What does the lamp cost?"}))
    assert refused.value.reason == "model_credentials"
    assert caplog.records == []
    assert Journal(runtime.ports, lane, "run").since(0, consistent=True) == []


@pytest.mark.parametrize(
    "named",
    [
        {"ANTHROPIC_API_KEY": "any"},
        {"STEPLINE_MODEL_SECRET_ARN": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:model"},
        {"STEPLINE_MODEL_PROVIDER": "bedrock"},
    ],
)
def test_a_key_a_secret_or_a_role_of_the_account_is_enough(named):
    model_of(Settings.from_env(named)).close()
