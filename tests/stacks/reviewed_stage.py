"""One stage's templates under AWS's rules, as a synthesis with `-c nag=true` checks them."""

import aws_cdk as cdk

from stepline_cdk.deployment import Deployment
from stepline_cdk.review import check

from .conftest import CONTEXT, PAGE, ROOT, read_page
from .empty_layers import code_of


def reviewed(folder, stage, *, spoil=None):
    """Return the reviewer of a stage's templates, which are in `folder/cdk.out`, and whether they were refused."""
    app = cdk.App(outdir=str(folder / "cdk.out"), context=CONTEXT)
    deployment = Deployment(
        app,
        stage,
        code=code_of(stage, folder),
        packages=("numpy",),
        files=read_page(ROOT, stage.named_modules, dist=PAGE),
    )
    if spoil:
        spoil(deployment)
    review = check(app, stage.python)
    try:
        app.synth()
    except RuntimeError as error:
        assert "ValidationFailed" in str(error)  # noqa: PT017 - a refusal is one of the two answers
        return review, True
    return review, False
