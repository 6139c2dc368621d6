"""The local stage: emulator, issuer, deployment, and the environment of programs."""
