"""The rights that the short story of tests/stacks/test_calls.py does not need, with the reason of each."""

BY_ANOTHER_PROOF = (
    "model key",
    "search key",
    "tools' secrets",
    "models",
    "Redis's URL",
    "traces' headers",
    "traces",
    "task roles",
    "memory",
    "embedding model",
    "undelivered",
    "log deliveries",
    "serve",
)
"""Only a client of a provider or a search engine uses these, a bundle's tool, hook or MCP server, a program's supervisor, a sender of traces, that of a Redis or of S3 Vectors, or ECS, Lambda or Step Functions does itself; tests/stacks/test_access.py says who has them."""
SETTLED = {
    *{
        ("dynamodb:GetItem", "CHARGE#*"),
        ("dynamodb:PutItem", "CHARGE#*"),
        ("dynamodb:UpdateItem", "ACCOUNT#*"),
    },
    ("dynamodb:DeleteItem", "SLOT#*"),
}
"""The account is charged with a turn that has ended, and its slots are free."""
SELDOM = {
    # A function that ends a lost turn reads unseen batches, puts a large batch if much was waiting, and settles.
    "socket": {("s3:PutObject", "out"), *SETTLED},
    "events": {("s3:GetObject", "out"), ("s3:PutObject", "out"), *SETTLED},
    # The same, and a project that the process which closed its turn did not save.
    "sweeper": {
        *{("s3:GetObject", "out"), ("s3:PutObject", "out")},
        *{("s3:PutObject", "git"), ("s3:ListBucket", "git")},
    },
    # A hook after the close sends an event, which does not change a list of conversations, rates the turn or calls the
    # model.
    "close": {
        *{("dynamodb:PutItem", "CONV#*"), ("dynamodb:PutItem", "DELTA#*")},
    },
    # A tool of the bundle that calls the model.
    "act": {("dynamodb:PutItem", "DELTA#*")},
    # An effect of a deletion that the API did not carry out, of a conversation that has cost something.
    "eraser": {("dynamodb:UpdateItem", "ACCOUNT#*")},
    # A round that begins before the turn before it is saved.
    "decide": {("s3:ListBucket", "git")},
    # A file of a server's answer; a call whose answer was lost; and a search in a user's other conversations.
    "serve": {
        *{("s3:PutObject", "out"), ("s3:ListBucket", "exec"), ("s3:ListBucket", "mem")},
        ("dynamodb:GetItem", "CONV#*"),
    },
    # The files of a program; and a second start of one whose request is gone, which differs from a refusal.
    "execute": {("s3:PutObject", "out"), ("s3:ListBucket", "exec")},
}
"""Rights that no short conversation needs."""

DELETING = {("dynamodb:UpdateItem", "LOG#*"), ("dynamodb:ConditionCheckItem", "LOG#*")}
OPENING = {*DELETING, ("dynamodb:ConditionCheckItem", "SLOT#*")}
CHARGING = {("dynamodb:UpdateItem", "CHARGE#*"), ("dynamodb:PutItem", "ACCOUNT#*")}
QUEUEING = {("dynamodb:UpdateItem", "QUEUE#*"), ("dynamodb:ConditionCheckItem", "QUEUE#*")}
BEGINNING = {*OPENING, *QUEUEING, ("dynamodb:PutItem", "QUEUE#*")}
FREEING = {("dynamodb:UpdateItem", "SLOT#*")}
BOTH_KEYS = {
    "socket": OPENING | QUEUEING | CHARGING | FREEING,
    "events": OPENING | QUEUEING | CHARGING | FREEING,
    "api": BEGINNING | CHARGING | FREEING,
    "decide": CHARGING,
    "act": BEGINNING | FREEING,
    "preflight": CHARGING,
    "close": BEGINNING | CHARGING | FREEING,
    "sweeper": BEGINNING | CHARGING | FREEING,
    "eraser": CHARGING | FREEING,
}
"""What only a judge needs who looks at all keys of a transaction for each of its actions."""
