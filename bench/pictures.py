"""A warm round's request with two pictures, from the known conversation to the provider's JSON, beside the same without them."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from PIL import Image

from bench.conversation import LANE, converse, cut, make_agent, objects, stored
from bench.row import Limit, MeasureError, Row
from bench.timing import cpu_ms, interleave
from stepline.adapters.anthropic.call import plan_call
from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.bootstrap.memory_wiring import in_memory
from stepline.context.request import spell_files
from stepline.delivery.effect import current_step
from stepline.log.journal import Journal
from stepline.loop.stream_generation import build_model_request, load_files, round_facts
from stepline.model.batch import Batch, decode_batch
from stepline.model.block import Body, Produced
from stepline.model.entry import Resulted
from stepline.model.ids import utc
from stepline.ports.model import RoleChoice
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from stepline.tools.read.picture import fit_picture

BLOCKS: Final = 1000
PHOTO_PX: Final = (4_000, 3_000)
ROUNDS: Final = 9
GOAL_TIMES: Final = 4.0
ROLE: Final = RoleChoice(model=AnthropicProvider.default_model)


def rows() -> list[Row]:
    """Return `request_ms_two_pictures`."""
    photos = [_photo(seed) for seed in (1, 2)]
    with_them, without = Request(photos), Request([])
    sent = with_them.body()
    encoded = [base64.b64encode(photo) for photo in photos]
    if [sent.count(data) for data in encoded] != [1, 1] or any(data in without.body() for data in encoded):
        raise MeasureError("the request does not hold each picture once")
    samples: dict[str, Callable[[], float]] = {
        "with": lambda: cpu_ms(with_them.body),
        "without": lambda: cpu_ms(without.body),
        "limit": lambda: cpu_ms(with_them.simplest),
    }
    found = interleave(samples, ROUNDS)
    sizes = sum(map(len, photos))
    return [
        Row(
            metric="request_ms_two_pictures",
            value=found["with"],
            unit="ms CPU",
            peers={"without them": found["without"]},
            limit=Limit("base64 and JSON alone", found["limit"]),
            goal_times=GOAL_TIMES,
            note=f"{sizes} bytes of pictures, {len(sent)} bytes of JSON, {BLOCKS} blocks",
        )
    ]


class Request:
    """A conversation whose newest round read pictures, or looked something up if there are none."""

    def __init__(self, photos: list[bytes]) -> None:
        """Store the conversation, and fold all but its newest round."""
        conversation = converse(BLOCKS)
        app = in_memory(Settings.from_env({}))
        stored(app)[:] = cut(stored(conversation), decode_batch, BLOCKS)
        objects(app).update(objects(conversation))
        self._ports, self._agent = app.ports, make_agent()
        *known, decided, resulted = Journal(app.ports, LANE, "bench").since(0)
        self._known = Timeline.empty(LANE).extended(known)
        self._newest = (decided, self._reading(resulted, photos))
        self.body()  # so that lazy values are created

    def body(self) -> bytes:
        """Fold the newest round, render, read the pictures, and encode."""
        return msgspec.json.encode(self._call())

    def simplest(self) -> bytes:
        """Encode pictures and texts in memory."""
        call, photos = self._plain, self._photos
        blocks = [{"data": base64.b64encode(photo).decode()} for photo in photos]
        return msgspec.json.encode([call, blocks])

    def _call(self) -> dict[str, Any]:
        timeline = self._known.extended(self._newest)
        now, step = utc(self._ports.clock.now()), current_step(LANE, timeline.tail)
        facts = round_facts(self._ports, self._agent, timeline, step, now=now)
        request = build_model_request(self._ports, self._agent, timeline, facts)
        request = spell_files(load_files(request, self._ports.artifacts))
        call = plan_call(request, ROLE)
        self._plain = [block.get("text", "") for block in call["messages"][0]["content"]]
        return call

    def _reading(self, batch: Batch, photos: list[bytes]) -> Batch:
        self._photos = photos
        if not photos:
            return batch
        (entry,) = [one for one in batch.entries if isinstance(one, Resulted)]
        views = tuple(self._view(entry, index, data) for index, data in enumerate(photos))
        return replace(batch, entries=(replace(entry, tool_id="react.read", blocks=views),))

    def _view(self, entry: Resulted, index: int, data: bytes) -> Produced:
        digest = hashlib.sha256(data).hexdigest()
        body = Body(key=f"out/{digest}", sha256=digest, size_bytes=len(data), mime="image/webp")
        self._ports.artifacts.put(body.key, data, mime=body.mime)
        turn = self._known.turns[-1]
        meta = {
            "source_path": f"fi:{turn}.outputs/{index}.jpg",
            "source_sha256": digest,
            "whole": False,
            "media": {"tokens": 2_352, "extent": "1568x1176"},
        }
        path = f"tc:{turn}.{entry.call_id}.view.{index}"
        return Produced(path=path, mime=body.mime, body=body, meta=meta)


def _photo(seed: int) -> bytes:
    """Return a photo as a read scales it down."""
    out = io.BytesIO()
    Image.effect_noise((PHOTO_PX[0] // seed, PHOTO_PX[1] // seed), 60).convert("RGB").save(out, "JPEG")
    return fit_picture(out.getvalue(), "image/jpeg", max_bytes=3_900_000).data
