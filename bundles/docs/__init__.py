"""The bundle that answers from the documentation of Stepline."""

from bundles.docs.workflow import DocsWorkflow

WORKFLOW = DocsWorkflow
