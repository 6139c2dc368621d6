"""An app with one stack: an agent, the secret with its model's key, and the address of its websocket."""

import aws_cdk as cdk
from aws_cdk import aws_secretsmanager as secretsmanager

from stepline_cdk import Agent

app = cdk.App()
stack = cdk.Stack(app, "Hello")
key = secretsmanager.Secret(stack, "ModelKey")
agent = Agent(stack, "Agent", bundle="greeter", model_secret=key)
cdk.CfnOutput(stack, "Socket", value=agent.socket_url)
app.synth()
