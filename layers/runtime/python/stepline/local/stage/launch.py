"""Start the emulator with its guard; run by the interpreter of the emulator's own environment.

Stepline is not installed there, and no other package of the project's environment may be found: the package gets a path
here, and only `durable.py`, `cold_start.py` and the guard are imported from it, which use the standard library only.

The emulator's Lambda runtime API is a standard library HTTP server that writes headers and body separately. With
Nagle's algorithm on, the body waits 40 ms for the client's delayed acknowledgement, at every invocation. The switch for
that is a class attribute of the standard library, and so is the one that keeps web pages away from it.
"""

import importlib
import os
import runpy
import socketserver
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType
from typing import Any

socketserver.StreamRequestHandler.disable_nagle_algorithm = True

package = ModuleType("stepline")
package.__path__ = [str(Path(__file__).resolve().parents[2])]
sys.modules["stepline"] = package

importlib.import_module("stepline.local.stage.durable").install()
importlib.import_module("stepline.local.stage.cold_start").install()

emulator: Any = importlib.import_module("ministack.app")
guard: Any = importlib.import_module("stepline.local.guard.gate")
importlib.import_module("stepline.local.guard.handler").refuse_pages(BaseHTTPRequestHandler)
# The emulator serves this name of its module, as its own `--detach` does.
emulator.app = guard.make_gate(emulator.app, os.environ)  # noqa: TID251 - the emulator's own variables, not settings of Stepline
os.environ.pop(guard.IDENTITY, None)  # noqa: TID251 - functions inherit the rest
runpy.run_module("ministack", run_name="__main__")
