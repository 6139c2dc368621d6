"""The guard in front of the emulator. It runs in the emulator's environment, with the standard library only."""
