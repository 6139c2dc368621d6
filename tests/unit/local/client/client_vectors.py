"""The client's fold of frames, as files that the client in TypeScript (`web/src/client`) also reads.

`make docs` writes them anew, below tests/data/client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from stepline.errors import DependencyError
from stepline.local.client.websocket import read_frame
from tests.unit.local.client.vector_rules import rules
from tests.unit.local.client.vector_session import sessions
from tests.unit.local.client.vector_walk import plain

CLIENT: Final = Path(__file__).parents[3] / "data" / "client"

TEXTS: Final = (
    '{"frame":"events","conversation":"c1","n":2,"prev":1}',
    '{"frame":"events","conversation":"c1","n":2,"prev":1,"claim":2,"later":{},"events":[{"type":"t","route":"r","ts":""}]}',
    '{"frame":"notice","conversation":"c1","event":{"type":"t","route":"r","ts":"","data":{"prompts":[1]},"later":1}}',
    '{"frame":"events","conversation":"c1","n":2,"prev":1,"part":2,"parts":3,"piece":"[{\\"type"}',
    '{"frame":"events","conversation":"c1","n":2,"prev":1,"v":2}',
    '{"frame":"events","v":2}',
    '{"frame":"events","conversation":"c1","n":2,"prev":1,"v":"2"}',
    '{"frame":"events","conversation":"c1","n":2}',
    '{"frame":"events","conversation":"c1","n":2,"prev":1,"events":[{"type":"chat.start"}]}',
    '{"frame":"events","conversation":"c1","n":2,"prev":1,"events":null}',
    '{"frame":"delta","conversation":"c1","claim":1,"lane":"answer.0","off":0,"text":"a🙂\\u2028\\ud83d\\ude42"}',
    '{"frame":"delta","conversation":"c1","claim":1,"lane":"answer.0","off":0.5,"text":""}',
    '{"frame":"delta","conversation":"c1","claim":true,"lane":"answer.0","off":0,"text":""}',
    '{"frame":"delta","conversation":"c1","claim":1,"lane":null,"off":0,"text":""}',
    '{"frame":"sync","conversation":"c1","n":4,"open":true,"turn_id":"t","approval":3}',
    '{"frame":"sync","conversation":"c1","n":4,"open":1}',
    '{"frame":"ack","message_id":"m","conversation":"c1","n":4,"kind":"prompt","newest":7,"duplicate":true}',
    '{"frame":"ack","conversation":"c1","n":4,"kind":"prompt"}',
    '{"frame":"error","code":"busy","message":"later","retryable":true,"retry_after_s":3}',
    '{"frame":"pong","conversation":"c1","n":4}',
    '{"frame":"pong","conversation":"c1","n":4,"place":2}',
    '{"frame":"sync","conversation":"c1","n":4,"open":true,"turn_id":"t","place":1}',
    '{"frame":"auth","expires_at":1795256100}',
    '{"frame":"notice","conversation":"c1","event":{"type":"t","route":"r","ts":""}}',
    '{"frame":"notice","conversation":"c1","event":[]}',
    '{"frame":"watching","expires_at":1795256100}',
    '{"frame":"feed","conversation":"c1"}',
    '{"frame":"news","text":"soon"}',
    '{"frame":"constructor"}',
    '{"frame":"__proto__"}',
    '{"frame":7}',
    '{"message": "Internal server error"}',
    "[]",
    "null",
    "",
    "Bad Gateway",
)


def wire() -> Iterator[dict[str, Any]]:
    """Yield texts with the client's reading of them: a frame, null for one of a later release, or the error."""
    for text in TEXTS:
        try:
            yield {"text": text, "frame": plain(read_frame(text))}
        except DependencyError as error:
            yield {"text": text, "fails": error.reason}


FILES: Final[dict[str, Callable[[], Iterator[dict[str, Any]]]]] = {
    "wire": wire,
    "rules": rules,
    "sessions": sessions,
}


def render(vectors: Iterable[dict[str, Any]]) -> str:
    """Return a file of vectors as JSON, with one step per line."""
    return "[\n" + ",\n".join(_render_vector(one) for one in vectors) + "\n]\n"


def _render_vector(one: dict[str, Any]) -> str:
    lines = []
    for name, value in one.items():
        if name in ("steps", "happens") and value:
            rows = ",\n".join(f"  {_json(row)}" for row in value)
            lines.append(f'"{name}": [\n{rows}\n ]')
        else:
            lines.append(f'"{name}": {_json(value)}')
    return "{" + ",\n ".join(lines) + "}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("\u2028", "\\u2028")


if __name__ == "__main__":
    CLIENT.mkdir(exist_ok=True)
    for name, make in FILES.items():
        (CLIENT / f"{name}.json").write_text(render(make()), encoding="utf-8")
