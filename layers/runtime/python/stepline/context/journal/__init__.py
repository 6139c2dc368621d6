"""The layout `journal`: a second form of request from the same fold, which shows a whole artifact only on request."""
