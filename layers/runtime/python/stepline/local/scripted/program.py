"""A table of made-up sales, and the program that sums up a table by month."""

from __future__ import annotations

import hashlib
import json
from string import Template
from typing import Final

from stepline.model.path import parse_path, physical

CHART: Final = "monthly_totals.png"
TOTALS: Final = "monthly_totals.csv"
REGIONS: Final = ("North", "South", "East", "West")
SALES_PER_REGION: Final = 3
FIRST_YEAR: Final = 2026

_TOTALS_PROGRAM: Final = Template(
    """\
import os
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

root = Path(os.environ["OUTPUT_DIR"])
outputs = root / $turn / "outputs"
outputs.mkdir(parents=True, exist_ok=True)

table = pd.read_csv(root / $source)
date = next(name for name in table.columns if "date" in name.lower())
amount = table.select_dtypes("number").columns[-1]
month = pd.to_datetime(table[date]).dt.strftime("%Y-%m")
totals = table[amount].groupby(month).sum().rename_axis("month").rename("total")

totals.to_csv(outputs / "$totals", float_format="%.2f")

figure, axes = plt.subplots(figsize=(8, 4.5))
axes.bar(totals.index, totals.values, color="#3b6ea5")
axes.set_title("Monthly totals")
axes.set_ylabel(amount)
figure.autofmt_xdate()
figure.tight_layout()
figure.savefig(outputs / "$chart", dpi=120)

print("| month | total |")
print("|---|---:|")
for name, total in totals.items():
    print(f"| {name} | {total:.2f} |")
"""
)


def sales_table(*, seed: str, months: int) -> str:
    """Return made-up sales as CSV (`date,region,units,amount`); another seed gives other figures."""
    rows = ["date,region,units,amount"]
    for month in range(months):
        for region in REGIONS:
            for sale in range(SALES_PER_REGION):
                bits = hashlib.sha256(f"{seed}/{month}/{region}/{sale}".encode()).digest()
                day, units = 1 + bits[0] % 28, 1 + bits[1] % 20
                cents = 500 + int.from_bytes(bits[2:4]) % 9_500
                date = f"{FIRST_YEAR + month // 12}-{month % 12 + 1:02}-{day:02}"
                rows.append(f"{date},{region},{units},{units * cents / 100:.2f}")
    return "\n".join(rows)


def totals_program(source: str, turn: str) -> str:
    """Return the program that sums up the table at a logical path for the given turn."""
    return _TOTALS_PROGRAM.substitute(
        source=json.dumps(physical(parse_path(source))), turn=json.dumps(turn), totals=TOTALS, chart=CHART
    )
