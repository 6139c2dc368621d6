"""The guard in front of the emulator. It runs in the emulator's environment: the standard library and nothing else."""
