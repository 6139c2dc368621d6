"""Search over HTTP: the API endpoints that query the memory index, in a function that has its packages.

The gateway routes only those endpoints here; they answer in the same way as all others in `api`.
"""

from lambdas.api import app, handler

__all__ = ["app", "handler"]
