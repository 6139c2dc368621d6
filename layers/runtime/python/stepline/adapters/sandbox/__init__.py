"""The parts around a hostile program that all backends share: its files, its socket, its output."""
