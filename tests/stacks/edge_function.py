"""A function of CloudFront, run unchanged from a template by the Node of this environment."""

import json
import subprocess


def run_function(code, event):
    """Return the answer of a function for an event, both as CloudFront hands them over."""
    program = f"{code}\nprocess.stdout.write(JSON.stringify(handler(JSON.parse(process.argv[1]))));"
    done = subprocess.run(
        ["node", "-e", program, json.dumps(event)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)
