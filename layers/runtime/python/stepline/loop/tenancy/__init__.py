"""Budgets of turns."""
