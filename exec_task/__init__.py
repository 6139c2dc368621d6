"""The processes that run next to generated code or contain it: container entry points and the executor."""
