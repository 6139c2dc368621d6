"""The local stage: emulator, token issuer, scripted model, and the command that talks to them. Not deployed."""
