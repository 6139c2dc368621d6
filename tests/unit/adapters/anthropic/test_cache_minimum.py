import pytest

from stepline.adapters.anthropic.family import DEFAULT_TOKENS, cache_minimum
from stepline.local.scripted.cache import minimum_tokens


@pytest.mark.parametrize(
    "model",
    [
        *(
            "claude-opus-4-8",
            "claude-opus-4-6-20260101",
            "claude-opus-4-1",
            "claude-opus-5",
            "claude-haiku-4-5",
            "claude-haiku-5-5",
        ),
        *("claude-sonnet-5", "claude-sonnet-5-5", "global.anthropic.claude-haiku-4-5-20251001-v1:0"),
        *("claude-opus-5-5", "claude-fable-5-1", "claude-mythos-5", "claude-mythos-preview", "another-model"),
    ],
)
def test_the_scripted_server_keeps_what_we_expect_it_to_keep(model):
    assert cache_minimum(model) == minimum_tokens(model)


def test_the_values_of_a_deployment_take_precedence():
    own = {"claude-opus-4": 7, "mine": 8}
    assert cache_minimum("claude-opus-4-8", own) == 7
    assert cache_minimum("mine-2", own) == 8
    assert cache_minimum("claude-haiku-4-5", own) == 4096
    assert cache_minimum("other", own) == DEFAULT_TOKENS
