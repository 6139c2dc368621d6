"""A shop's agent: the example to which the guides refer."""

from examples.shop.workflow import Shop

WORKFLOW = Shop
