"""The ports on real things: AWS, a model's provider, this machine, this process."""
