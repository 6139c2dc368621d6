"""`make simulate`: print the tables of docs/concepts/scale.md. `python -m bench.simulate 500 5000` prints those sizes."""

from __future__ import annotations

import sys

from bench.simulate.report import LIFTED, QUOTAS, SIZES, effects_table, needs_table

sizes = tuple(int(word.replace(",", "")) for word in sys.argv[1:]) or SIZES
for title, lines in (
    ("What is asked for, by quota:", needs_table(sizes)),
    ("With the defaults of an account:", effects_table(QUOTAS, sizes)),
    ("If the model's provider has no limit:", effects_table(LIFTED, sizes)),
):
    print("\n".join((title, "", *lines, "")))
