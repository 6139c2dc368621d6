"""Write the generated pages that no module of the library writes itself."""

from __future__ import annotations

import sys

from tests.unit.docs import (
    error_page,
    execution_page,
    live_event_page,
    log_page,
    message_page,
    parity,
    protocol_page,
)
from tests.unit.docs.source import name

for page in (
    error_page,
    execution_page,
    live_event_page,
    log_page,
    message_page,
    parity,
    protocol_page,
):
    sys.stdout.write(f"{name(page.write())}\n")
