"""The rights that commands on a stage need, and the role that gives those of a deployment to CI."""
