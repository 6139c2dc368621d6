"""The only Stepline code that generated code sees: standard library only, no imports from outside this folder.

The folder `documents` uses the packages of programs; the first call that draws a document loads it.

Tests import it as `exec_task.executor`; at run time it is the top-level package `executor`.
"""
