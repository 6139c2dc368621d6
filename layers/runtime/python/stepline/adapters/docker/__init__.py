"""Programs in containers: the host's side of a run over the `docker` command, and the protocol of both sides."""
