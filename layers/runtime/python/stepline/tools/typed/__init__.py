"""Tools made from typed functions."""
