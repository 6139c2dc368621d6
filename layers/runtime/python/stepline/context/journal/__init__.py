"""The layout `journal`: a second way to ask from the same fold, with the whole of an artifact only where it was asked for."""
