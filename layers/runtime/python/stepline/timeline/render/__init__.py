"""What the model reads: the text of each thing that happened, and the request made of it."""
