"""An agent whose model is served on this machine: no key, no stage, and no request leaves it."""

from stepline import BaseWorkflow


class Local(BaseWorkflow):
    """Has the tools of every agent, and no others."""


WORKFLOW = Local
