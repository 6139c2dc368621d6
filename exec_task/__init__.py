"""The processes beside or around generated code: the containers' entry points and the executor."""
