"""Programs in containers: the host's side of a run with the `docker` command, and the protocol of both sides."""
