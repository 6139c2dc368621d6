"""A discrete-event simulation of a stage under load: real rows, real posting, the quotas of an account."""
