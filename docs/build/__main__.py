"""Write all generated pages: `make docs`."""

from __future__ import annotations

import sys

from docs.build import DOCS, PAGES, load

for page in map(load, PAGES):
    page.PATH.write_text(page.render(), encoding="utf-8")
    sys.stdout.write(f"{page.PATH.relative_to(DOCS.parent)}\n")
