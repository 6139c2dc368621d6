"""What every backend does around a hostile program: its files, its socket, its output."""
