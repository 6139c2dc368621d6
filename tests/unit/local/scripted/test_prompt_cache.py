"""The scripted server's cache accounting against the provider's published rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.memory.clock import MemoryClock
from stepline.local.scripted.cache import CacheUse, PromptCache, minimum_tokens
from stepline.local.scripted.messages_request import Prompt, PromptBlock, parse_prompt

MODEL = "claude-sonnet-5"
BLOCK_TOKENS = 1000
FIVE_MINUTES_S, ONE_HOUR_S = 300, 3600


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock()


@pytest.fixture
def cache(clock: MemoryClock) -> PromptCache:
    return PromptCache(now_s=clock.monotonic_s)


def prompt(
    names: str, marks: dict[int, int] | None = None, *, model: str = MODEL, size: int = BLOCK_TOKENS
) -> Prompt:
    """A prompt with one block per letter; `marks` maps a position to its TTL in seconds."""
    ttl = marks or {}
    blocks = tuple(
        PromptBlock(identity=name, text="", tokens=size, ttl_s=ttl.get(n)) for n, name in enumerate(names)
    )
    return Prompt(model=model, max_tokens=1, stream=True, blocks=blocks, system="", messages=(("user", ""),))


def ask(cache: PromptCache, asked: Prompt, *, workspace: str = "w") -> tuple[int, int, int]:
    """Run a request; return read, written (both lives) and plain tokens."""
    use = cache.look(asked, workspace=workspace)
    cache.commit(use)
    return use.read, use.write_5m + use.write_1h, use.plain


def every(step: int, count: int) -> str:
    return "".join(chr(0x100 + n) for n in range(step, step + count))


def test_a_mark_writes_and_the_same_prefix_is_read(cache: PromptCache) -> None:
    assert ask(cache, prompt("ab", {1: FIVE_MINUTES_S})) == (0, 2000, 0)
    assert ask(cache, prompt("abc", {1: FIVE_MINUTES_S})) == (2000, 0, 1000)


def test_without_a_mark_nothing_is_written_or_read(cache: PromptCache) -> None:
    assert ask(cache, prompt("ab")) == (0, 0, 2000)
    ask(cache, prompt("ab", {1: FIVE_MINUTES_S}))
    assert ask(cache, prompt("ab")) == (0, 0, 2000)


def test_a_changed_byte_before_the_mark_misses(cache: PromptCache) -> None:
    ask(cache, prompt("abc", {2: FIVE_MINUTES_S}))
    assert ask(cache, prompt("xbc", {2: FIVE_MINUTES_S})) == (0, 3000, 0)


def test_only_marked_positions_are_written(cache: PromptCache) -> None:
    ask(cache, prompt("abx", {2: FIVE_MINUTES_S}))
    # "ab" is common, yet no entry ends there
    assert ask(cache, prompt("aby", {2: FIVE_MINUTES_S})) == (0, 3000, 0)


def test_a_moving_mark_reads_the_last_write_and_adds_the_rest(cache: PromptCache) -> None:
    ask(cache, prompt("ab", {1: FIVE_MINUTES_S}))
    assert ask(cache, prompt("abcd", {3: FIVE_MINUTES_S})) == (2000, 2000, 0)
    assert ask(cache, prompt("abcdef", {4: FIVE_MINUTES_S})) == (4000, 1000, 1000)


@pytest.mark.parametrize(("blocks", "read"), [(19, 10_000), (20, 0)], ids=["in the window", "one too far"])
def test_the_window_is_twenty_positions_with_the_mark_as_the_first(
    cache: PromptCache, blocks: int, read: int
) -> None:
    ask(cache, prompt(every(0, 10), {9: FIVE_MINUTES_S}))
    assert ask(cache, prompt(every(0, 10 + blocks), {9 + blocks: FIVE_MINUTES_S}))[0] == read


def test_the_published_example_of_three_turns(cache: PromptCache) -> None:
    ask(cache, prompt(every(0, 10), {9: FIVE_MINUTES_S}))
    assert ask(cache, prompt(every(0, 15), {14: FIVE_MINUTES_S})) == (10_000, 5000, 0)
    far = prompt(every(0, 35), {34: FIVE_MINUTES_S})
    assert cache.look(far, workspace="w").read == 0
    second_mark = prompt(every(0, 35), {14: FIVE_MINUTES_S, 34: FIVE_MINUTES_S})
    assert ask(cache, second_mark) == (15_000, 20_000, 0)


def test_a_mark_on_text_that_changes_each_time_never_reads(cache: PromptCache) -> None:
    for clock_text in "uvw":
        assert ask(cache, prompt(f"abcde{clock_text}", {5: FIVE_MINUTES_S})) == (0, 6000, 0)


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("claude-sonnet-5", 1024),
        ("claude-opus-4-8", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-5-20251101", 4096),
        ("claude-opus-4-1", 1024),
        ("claude-opus-5", 512),
        ("claude-haiku-4-5-20251001", 4096),
        ("global.anthropic.claude-haiku-4-5", 4096),
        ("some-other-model", 1024),
    ],
)
def test_a_prefix_below_the_models_minimum_is_not_cached(
    cache: PromptCache, model: str, minimum: int
) -> None:
    assert minimum_tokens(model) == minimum
    short = prompt("a", {0: FIVE_MINUTES_S}, model=model, size=minimum - 1)
    assert [ask(cache, short), ask(cache, short)] == [(0, 0, minimum - 1)] * 2
    enough = prompt("b", {0: FIVE_MINUTES_S}, model=model, size=minimum)
    assert [ask(cache, enough), ask(cache, enough)] == [(0, minimum, 0), (minimum, 0, 0)]


def test_an_entry_dies_after_five_minutes(cache: PromptCache, clock: MemoryClock) -> None:
    asked = prompt("ab", {1: FIVE_MINUTES_S})
    ask(cache, asked)
    clock.pause(FIVE_MINUTES_S - 1)
    assert cache.look(asked, workspace="w").read == 2000
    clock.pause(1)
    assert ask(cache, asked) == (0, 2000, 0)


def test_each_use_starts_its_life_anew(cache: PromptCache, clock: MemoryClock) -> None:
    asked = prompt("ab", {1: FIVE_MINUTES_S})
    for _ in range(5):
        ask(cache, asked)
        clock.pause(FIVE_MINUTES_S - 1)
    assert ask(cache, asked) == (2000, 0, 0)


def test_looking_alone_keeps_nothing_alive(cache: PromptCache, clock: MemoryClock) -> None:
    asked = prompt("ab", {1: FIVE_MINUTES_S})
    ask(cache, asked)
    clock.pause(FIVE_MINUTES_S - 1)
    cache.look(asked, workspace="w")
    clock.pause(1)
    assert cache.look(asked, workspace="w").read == 0


def test_an_hour_lasts_an_hour(cache: PromptCache, clock: MemoryClock) -> None:
    asked = prompt("ab", {1: ONE_HOUR_S})
    ask(cache, asked)
    clock.pause(ONE_HOUR_S - 1)
    assert ask(cache, asked) == (2000, 0, 0)
    clock.pause(ONE_HOUR_S)
    assert ask(cache, asked) == (0, 2000, 0)


def test_an_entry_exists_only_once_a_response_has_begun(cache: PromptCache) -> None:
    asked = prompt("ab", {1: FIVE_MINUTES_S})
    first, second = cache.look(asked, workspace="w"), cache.look(asked, workspace="w")
    assert (first.read, second.read) == (0, 0)
    cache.commit(first)
    assert cache.look(asked, workspace="w").read == 2000


def test_workspaces_and_models_share_nothing(cache: PromptCache) -> None:
    ask(cache, prompt("ab", {1: FIVE_MINUTES_S}))
    assert ask(cache, prompt("ab", {1: FIVE_MINUTES_S}), workspace="other")[0] == 0
    assert ask(cache, prompt("ab", {1: FIVE_MINUTES_S}, model="claude-sonnet-4-6"))[0] == 0


def test_mixed_lives_are_billed_at_three_positions(cache: PromptCache) -> None:
    ask(cache, prompt("ab", {1: ONE_HOUR_S}))
    use = cache.look(prompt("abcdefg", {1: ONE_HOUR_S, 3: ONE_HOUR_S, 5: FIVE_MINUTES_S}), workspace="w")
    assert (use.read, use.write_1h, use.write_5m, use.plain) == (2000, 2000, 2000, 1000)


def test_a_one_hour_mark_before_the_hit_costs_nothing(cache: PromptCache) -> None:
    both = prompt("abcd", {1: ONE_HOUR_S, 3: FIVE_MINUTES_S})
    ask(cache, both)
    use = cache.look(both, workspace="w")
    assert (use.read, use.write_1h, use.write_5m, use.plain) == (4000, 0, 0, 0)


@given(
    st.lists(
        st.tuples(st.text("ab", min_size=1, max_size=30), st.sets(st.integers(0, 29), max_size=4)),
        max_size=12,
    )
)
def test_every_token_is_counted_once(requests: list[tuple[str, set[int]]]) -> None:
    cache = PromptCache(now_s=lambda: 0.0)
    for names, at in requests:
        asked = prompt(names, {n: FIVE_MINUTES_S for n in at if n < len(names)})
        use: CacheUse = cache.look(asked, workspace="w")
        assert use.read + use.write_5m + use.write_1h + use.plain == asked.tokens
        assert min(use.read, use.write_5m, use.write_1h, use.plain) >= 0
        cache.commit(use)
        again = cache.look(asked, workspace="w")
        assert again.write_5m == again.write_1h == 0
        assert again.plain == use.plain


def test_the_mark_itself_is_no_part_of_the_prefix() -> None:
    def body(marked: bool) -> dict[str, object]:
        mark = {"cache_control": {"type": "ephemeral"}} if marked else {}
        content = [{"type": "text", "text": "hello", **mark}]
        return {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": content}]}

    assert parse_prompt(body(True)).blocks[0].identity == parse_prompt(body(False)).blocks[0].identity
