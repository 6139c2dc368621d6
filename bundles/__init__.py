"""Agents of this deployment: one package each. `STEPLINE_BUNDLE` names the one that answers."""
