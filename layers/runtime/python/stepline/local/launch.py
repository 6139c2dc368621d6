"""Start the emulator; run by the interpreter of the emulator's own environment.

Stepline is not installed there, and nothing else of the project's environment may be found: the package has a path
here, and of it `durable.py` alone is imported, which is standard library.

The emulator's Lambda runtime API is a standard library HTTP server that writes headers and body apart. With Nagle's
algorithm on, the body waits 40 ms for the client's delayed acknowledgement, at every invocation. The switch for that is
a class attribute of the standard library.
"""

import importlib
import runpy
import socketserver
import sys
from pathlib import Path
from types import ModuleType

socketserver.StreamRequestHandler.disable_nagle_algorithm = True

package = ModuleType("stepline")
package.__path__ = [str(Path(__file__).resolve().parents[1])]
sys.modules["stepline"] = package

importlib.import_module("stepline.local.durable").install()
runpy.run_module("ministack", run_name="__main__")
