"""Stepline's agent as a construct of the CDK, for an app of your own.

Source: docs/how-to/own-app.md.
"""

from stepline_cdk.agent import Agent

__all__ = ["Agent"]
