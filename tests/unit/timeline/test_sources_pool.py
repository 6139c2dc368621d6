"""The pool of sources: each source has one number that never changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.model.source import Citation, Source
from stepline.timeline.sources_pool import (
    CONTENT_CHARS,
    SID_MAX,
    is_eligible,
    merge_sources,
    select_sources,
    source_key,
)
from tests.support.log_builder import LogBuilder

Pool = dict[int, Source]


def page(name: str, **fields: object) -> Source:
    return Source(**{"title": name, "url": f"https://e.example/{name}", **fields})


def image(name: str = "chart.png") -> Source:
    return Source(title=name, source_type="file", mime="image/png", path=f"fi:turn_1.outputs/{name}")


def merged(pool: Pool, *rows: Source) -> Pool:
    return {**pool, **{row.sid: row for row in merge_sources(pool, rows).rows}}


rows = st.builds(
    Source,
    sid=st.integers(0, 6),
    title=st.sampled_from(["", "a", "longer"]),
    url=st.sampled_from(
        ["https://e.example/1", "https://E.example/1/?utm_x=1", "https://e.example/2", "nowhere"]
    ),
    text=st.sampled_from(["", "t", "more text"]),
    query_relevance=st.sampled_from([None, 0.2, 0.9]),
    author=st.sampled_from(["", "ada"]),
) | st.sampled_from(
    [image("a.png"), image("b.png"), Source(source_type="file", mime="text/csv", path="fi:x")]
)
batches = st.lists(st.lists(rows, max_size=5), max_size=5)


def test_new_sources_are_numbered_from_one():
    found = merge_sources({}, [page("a"), page("b"), page("a")])
    assert found.sids == (1, 2, 1)
    assert [row.sid for row in found.rows] == [1, 2]


def test_a_known_source_keeps_its_number_over_a_proposed_one():
    pool = merged({}, page("a"))
    found = merge_sources(pool, [page("a", sid=9, url="HTTPS://E.example:443/a#top")])
    assert (found.sids, found.rows, found.renamed) == ((1,), (), {9: 1})


def test_a_new_source_keeps_the_number_it_proposes_if_that_is_free():
    pool = merged({}, page("a"))
    found = merge_sources(pool, [page("b", sid=7), page("c", sid=1), page("d", sid=7), page("e", sid=10**12)])
    assert found.sids == (7, 8, 9, 10)
    assert found.renamed == {7: 7, 1: 8, 10**12: 10}


def test_no_source_number_exceeds_the_largest_in_a_path():
    pool = merged({}, page("a", sid=SID_MAX), page("b", sid=2))
    found = merge_sources(pool, [page("c"), page("d"), page("e", sid=-1)])
    assert found.sids == (1, 3, 4)


def test_a_merged_row_has_the_longer_texts_better_scores_and_missing_fields():
    pool = merged({}, page("a", text="long text", query_relevance=0.9, author="ada"))
    new = page(
        "a", title="A title", text="short", content="all", author="bob", mime="text/html", query_relevance=0.1
    )
    (row,) = merge_sources(pool, [new]).rows
    assert row == Source(
        sid=1,
        title="A title",
        url="https://e.example/a",
        text="long text",
        content="all",
        author="ada",
        mime="text/html",
        query_relevance=0.9,
    )


def test_the_pool_accepts_pages_manual_entries_and_images():
    assert is_eligible(page("a"))
    assert not is_eligible(page("a", url="javascript:alert(1)"))
    assert not is_eligible(page("a", url=""))
    assert is_eligible(Source(source_type="manual", title="A book"))
    assert is_eligible(image())
    assert not is_eligible(replace(image(), mime="text/csv"))
    assert not is_eligible(replace(image(), path=""))
    assert is_eligible(Source(source_type="file", path="ks:docs/a.md"))
    assert merge_sources({}, [page("a", url="ftp://e.example"), page("b")]).sids == (0, 1)


def test_files_and_pages_are_identified_by_their_location():
    assert source_key(image()) == "local:fi:turn_1.outputs/chart.png"
    assert source_key(page("a", url="https://E.example/a/")) == "https://e.example/a"
    one, two = (Source(source_type="manual", title="A book", text=text) for text in ("p. 1", "p. 2"))
    assert source_key(one) != source_key(two)


def test_a_source_row_is_cut_to_its_limits():
    (row,) = merge_sources({}, [page("a", content="x" * (CONTENT_CHARS + 1), title="t" * 1_000)]).rows
    assert (len(row.content), len(row.title)) == (CONTENT_CHARS, 300)


@given(batches)
def test_merging_known_sources_changes_nothing(given):
    pool: Pool = {}
    for batch in given:
        pool = merged(pool, *batch)
        assert merge_sources(pool, batch).rows == ()
        assert merge_sources(pool, pool.values()).rows == ()


@given(batches, st.randoms())
def test_a_number_is_given_once_and_stays(given, random):
    pool: Pool = {}
    for batch in given:
        before = pool
        pool = merged(pool, *batch)
        keys = {sid: source_key(row) for sid, row in pool.items()}
        assert len(set(keys.values())) == len(keys)
        assert {sid: keys[sid] for sid in before} == {sid: source_key(row) for sid, row in before.items()}
        shuffled = random.sample(batch, len(batch))
        again = merged(before, *shuffled)
        assert {sid: source_key(again[sid]) for sid in before} == {sid: keys[sid] for sid in before}


@given(batches)
def test_every_accepted_row_has_a_number_that_resolves_to_it(given):
    pool: Pool = {}
    for batch in given:
        found = merge_sources(pool, batch)
        pool = merged(pool, *batch)
        for row, sid in zip(batch, found.sids, strict=True):
            assert bool(sid) == is_eligible(row)
            assert not sid or source_key(pool[sid]) == source_key(row)


def test_rows_are_selected_in_the_order_of_the_pool():
    pool = merged({}, page("b", sid=5), page("a", sid=2), page("c"))
    assert [row.sid for row in select_sources(pool, ())] == [2, 5, 6]
    assert [row.sid for row in select_sources(pool, ((6, 6), (1, 2)))] == [2, 6]
    assert select_sources(pool, ((3, 4),)) == ()


def test_the_pool_is_the_fold_of_the_sources_of_results():
    log = LogBuilder()
    log.message()
    log.act(("web_tools.web_search", {"queries": "a"}))
    first, second = page("a", sid=1, text="one"), page("b", sid=2)
    log.result(sources=(first, second))
    before = log.timeline()
    assert before.sources == {1: first, 2: second}
    changed = replace(first, text="one and more")
    log.act(("web_tools.web_search", {"queries": "b"}), citations=(Citation(sid=2, title="b"),))
    log.result(sources=(changed,))
    after = log.timeline()
    assert after == before.extended(log.batches)
    assert after.sources == {1: changed, 2: second}
    assert before.sources == {1: first, 2: second}
    assert after.cited == {2: log.n - 2}
