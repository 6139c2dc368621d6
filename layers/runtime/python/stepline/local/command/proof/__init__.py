"""The command that proves a stage."""
