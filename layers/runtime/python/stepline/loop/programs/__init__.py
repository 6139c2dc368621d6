"""Programs in the loop: launched once, run inline or remotely, settled by their outcome."""
