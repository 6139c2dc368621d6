"""The bundle that answers out of the box."""

from bundles.default.workflow import DefaultWorkflow

WORKFLOW = DefaultWorkflow
