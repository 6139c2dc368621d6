"""The only code of ours that generated code sees: standard library only, no imports from outside this folder.

The folder `documents` uses the packages of programs, and is loaded by the first call that draws a document.

Tests import it as `exec_task.executor`; at run time it is the top-level package `executor`.
"""
