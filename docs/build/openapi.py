"""docs/reference/openapi.json: the description of the HTTP API, as `GET /v1/openapi.json` serves it."""

from __future__ import annotations

import json
from typing import Final

from docs.build import DOCS
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.openapi import render_openapi

PATH: Final = DOCS / "reference/openapi.json"


def render() -> str:
    """Return the description as JSON."""
    return json.dumps(render_openapi(ENDPOINTS), indent=2, ensure_ascii=False) + "\n"
