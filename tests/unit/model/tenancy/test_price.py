"""The cost of a call, and the prices of a deployment."""

import pytest

from stepline.errors import InputError
from stepline.model.tenancy.price import Prices, dollars, read_prices
from stepline.model.usage import Usage

NOW = "2026-11-26T00:00:00Z"
MANY = 1_000_000


@pytest.mark.parametrize(
    ("model", "usage", "at", "usd"),
    [
        ("claude-opus-5-5", Usage(input_tokens=MANY), NOW, 4.0),
        ("claude-opus-5-20260724", Usage(output_tokens=MANY), NOW, 25.0),
        ("claude-sonnet-5-5", Usage(cache_read_tokens=MANY), "2026-10-06T23:59:59Z", 0.2),
        ("claude-sonnet-5-5", Usage(cache_read_tokens=MANY), "2026-10-07T00:00:00Z", 0.1),
        ("claude-sonnet-5", Usage(cache_write_1h_tokens=MANY), NOW, 4.0),
        ("claude-haiku-5-5", Usage(input_tokens=100_000), NOW, 0.01),
        ("claude-haiku-5-5", Usage(input_tokens=100_001), NOW, 0.0500005),
        ("global.anthropic.claude-sonnet-5-5", Usage(input_tokens=1), NOW, None),
        ("gpt-6", Usage(input_tokens=1), NOW, None),
        ("scripted", Usage(input_tokens=MANY, output_tokens=MANY, cache_write_1h_tokens=MANY), NOW, 0.0),
    ],
)
def test_the_price_of_a_call_is_that_of_its_model_and_its_day(model, usage, at, usd) -> None:
    nanos = Prices().nanos(model, usage, at)
    assert (None if nanos is None else dollars(nanos)) == usd


def test_a_single_token_of_the_cheapest_class_is_not_rounded_away() -> None:
    assert Prices().nanos("claude-haiku-5-5", Usage(cache_read_tokens=1), NOW) == 10


def test_a_deployment_lays_its_prices_over_the_table() -> None:
    own = {"model": "global.anthropic.claude", "plain": 2.2, "read": 0.11, "output": 11}
    dearer = {"model": "claude-sonnet-5-5", "plain": 3, "read": 1, "output": 20, "since": "2027-01-01"}
    prices = read_prices({"models": [own, dearer], "aws": {"post": 0.5}})
    used = Usage(input_tokens=MANY)
    assert prices.nanos("global.anthropic.claude-sonnet-5-5", used, NOW) == 2_200_000_000
    assert prices.nanos("claude-sonnet-5-5", used, NOW) == 2_000_000_000
    assert prices.nanos("claude-sonnet-5-5", used, "2027-01-01") == 3_000_000_000
    assert prices.units == {"post": 0.5}


@pytest.mark.parametrize("given", [{"models": [{"model": "m"}]}, {"aws": {"post": "dear"}}, {"others": 1}])
def test_invalid_prices_are_refused(given) -> None:
    with pytest.raises(InputError) as caught:
        read_prices(given)
    assert caught.value.reason == "bad_prices"
