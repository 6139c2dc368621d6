"""The decisions of a generation: parsing, JSON repair, validation and fan-out."""
