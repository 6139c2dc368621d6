"""The only code of ours that generated code sees: standard library only, no imports from outside this folder.

Tests import it as `exec_task.executor`; at run time it is the top-level package `executor`.
"""
