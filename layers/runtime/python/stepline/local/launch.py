"""Start the emulator; run by the interpreter of the emulator's own environment, where Stepline is not installed.

Its Lambda runtime API is a standard library HTTP server that writes headers and body apart. With Nagle's algorithm
on, the body waits 40 ms for the client's delayed acknowledgement, at every invocation. The switch for that is a
class attribute of the standard library. What it acknowledges is made durable by `durable.py`, which stands beside this file.
"""

import importlib.util
import runpy
import socketserver
import sys
from pathlib import Path

socketserver.StreamRequestHandler.disable_nagle_algorithm = True

if (
    spec := importlib.util.spec_from_file_location("durable", Path(__file__).with_name("durable.py"))
) is None or (spec.loader is None):
    sys.exit("durable.py does not stand beside launch.py")
durable = importlib.util.module_from_spec(spec)
spec.loader.exec_module(durable)
durable.install()

runpy.run_module("ministack", run_name="__main__")
