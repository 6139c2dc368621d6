"""The composition root: the one place that knows every adapter."""

from stepline.bootstrap.app import App
from stepline.bootstrap.choice import policy, read_caps
from stepline.bootstrap.wiring import in_memory, on_aws

__all__ = ["App", "in_memory", "on_aws", "policy", "read_caps"]
