"""The torture matrix: twelve faults on this runtime and on others."""
