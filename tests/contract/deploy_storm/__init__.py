"""A storm of deployments: turns whose every step a release runs that is drawn at random."""
