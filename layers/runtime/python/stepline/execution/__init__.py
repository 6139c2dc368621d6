"""Running a program, as far as it needs no process: contract, code, files, outputs, envelope, report."""
