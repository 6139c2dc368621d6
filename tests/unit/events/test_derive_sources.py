"""The event of a result that changes the pool of sources."""

from stepline.events.derive import derive
from stepline.model.source import Source
from tests.support.log_builder import LogBuilder


def test_a_result_that_changes_the_pool_lists_the_rows():
    log = LogBuilder()
    log.message()
    log.act(("shop.find", {}))
    call = log.call(0)
    log.result(
        tool="shop.find",
        sources=(
            Source(sid=7, title="Handbook", source_type="manual", content="long"),
            Source(sid=3, title="A", url="javascript:alert(1)"),
            Source(sid=4, url="https://a.example/x", text="snippet"),
        ),
    )
    (event,) = [one for one in derive(log.batches[-1]) if one.type == "chat.sources"]
    assert event.data == {
        "tool_id": "shop.find",
        "call_id": call,
        "count": 3,
        "items": [
            {"sid": 3, "title": "A"},
            {"sid": 4, "title": "", "url": "https://a.example/x"},
            {"sid": 7, "title": "Handbook", "source_type": "manual"},
        ],
    }


def test_a_result_that_leaves_the_pool_as_it_is_has_no_such_event():
    log = LogBuilder()
    log.message()
    log.act(("shop.find", {}))
    log.result(tool="shop.find")
    assert "chat.sources" not in [one.type for one in derive(log.batches[-1])]
