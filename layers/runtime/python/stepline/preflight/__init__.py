"""Files from outside, judged before anything else reads them."""
