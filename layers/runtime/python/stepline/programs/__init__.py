"""Programs without a process: contract, checks, tool requests, files, outputs, envelope and report."""
