"""Write the generated pages that no module of the library writes itself."""

from __future__ import annotations

import sys

from tests.unit.docs import error_page, log_page, message_page, parity
from tests.unit.docs.source import name

for page in (error_page, log_page, message_page, parity):
    sys.stdout.write(f"{name(page.write())}\n")
