"""The composition root: the one place that knows every adapter."""

from stepline.bootstrap.app import App, in_memory, on_aws
from stepline.bootstrap.choice import policy, read_caps

__all__ = ["App", "in_memory", "on_aws", "policy", "read_caps"]
