"""Monthly totals, computed without any of the libraries that the program under test uses."""

from __future__ import annotations

import csv
from collections import defaultdict
from decimal import Decimal

WRITE = "Write a CSV of sales of {word} over five months to sales.csv."
TOTALS = "Compute the monthly totals of sales.csv and draw a chart."
PNG = b"\x89PNG\r\n\x1a\n"


def totals_of(data):
    """Sum up a table of sales by month."""
    totals = defaultdict(Decimal)
    for row in csv.DictReader(data.decode().splitlines()):
        totals[row["date"][:7]] += Decimal(row["amount"])
    return dict(totals)


def written_totals(data):
    """Return the totals that a program wrote as CSV."""
    return {row["month"]: Decimal(row["total"]) for row in csv.DictReader(data.decode().splitlines())}


def table_of(answer):
    """Return the rows of the one Markdown table of an answer."""
    lines = [line for line in answer.split("\n") if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {month: Decimal(total) for month, total in rows[2:]}
