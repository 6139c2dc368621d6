"""The models that a server of chat completions lists."""

from __future__ import annotations

from typing import Final

import msgspec
import urllib3
from urllib3 import exceptions as foreign

from stepline.adapters.chat.provider import completions_url
from stepline.adapters.http_pool import make_pool
from stepline.errors import ModelRefused, ModelUnreachable
from stepline.model.base import Value

LIST_MAX_BYTES: Final = 4_000_000
TIMEOUT_S: Final = 5.0


class _Model(Value):
    id: str


class _Listed(Value):
    data: tuple[_Model, ...] = ()


def list_models(base_url: str, api_key: str = "") -> tuple[str, ...]:
    """Return the ids of a server's models, at least one. Raises ModelRefused, ModelUnreachable."""
    url = completions_url(base_url).removesuffix("/chat/completions") + "/models"
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        response = make_pool(url).request(
            "GET",
            url,
            headers=headers,
            preload_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(total=TIMEOUT_S),
        )
        try:
            data = response.read(LIST_MAX_BYTES)
        finally:
            response.close()
    except foreign.HTTPError as error:
        raise ModelUnreachable(f"there is no model server at {base_url}: {type(error).__name__}") from error
    try:
        found = msgspec.json.decode(data, type=_Listed).data
    except msgspec.DecodeError:
        found = ()
    if response.status != 200 or not found:
        raise ModelRefused(
            f"{url} lists no models (status {response.status}): name the address of a server of chat completions that has one"
        )
    return tuple(model.id for model in found)
