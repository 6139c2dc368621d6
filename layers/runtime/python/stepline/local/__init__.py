"""The local stage: emulator, token issuer, scripted model, and the command line. Not deployed."""
