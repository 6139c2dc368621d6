"""An evaluation set that fails when a prompt is made worse: three cases of a harbour's agent."""

from stepline import BaseWorkflow


class Harbour(BaseWorkflow):
    """Answers about tides, and books berths after the skipper's approval."""

    tools_module = "examples.evals.tools"


WORKFLOW = Harbour
