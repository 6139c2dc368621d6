"""The parts that all backends share for a hostile program: its files, its socket, its output."""
