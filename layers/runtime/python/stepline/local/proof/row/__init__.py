"""The proofs by subject: each module has the functions of its rows, and `proof_table` has the rows."""
