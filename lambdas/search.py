"""Search over HTTP: the API's endpoints that ask the index of memory, in a function that has its packages.

The gateway routes those alone here; they are answered as `api` answers all others.
"""

from lambdas.api import app, handler

__all__ = ["app", "handler"]
