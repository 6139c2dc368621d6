"""The choices of a stage: what each takes, its default for each kind of stage, and the places it is read from."""
