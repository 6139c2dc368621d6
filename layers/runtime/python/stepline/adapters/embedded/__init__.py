"""A memory index without a service: segments in the artifact store, searched in the process."""
