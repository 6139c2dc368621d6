"""Start the emulator; run by the interpreter of the emulator's own environment, where Stepline is not installed.

Its Lambda runtime API is a standard library HTTP server that writes headers and body apart. With Nagle's algorithm
on, the body waits 40 ms for the client's delayed acknowledgement, at every invocation. The switch for that is a
class attribute of the standard library; nothing of the emulator is touched.
"""

import runpy
import socketserver

socketserver.StreamRequestHandler.disable_nagle_algorithm = True
runpy.run_module("ministack", run_name="__main__")
