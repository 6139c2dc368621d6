"""A conversation under a lens: its rounds, the requests that they sent, their replies, costs, log and documents."""
