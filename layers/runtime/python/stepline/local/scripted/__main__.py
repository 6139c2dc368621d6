"""`python -m stepline.local.scripted --port N`: run the scripted model server until it is stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from stepline.local.scripted.server import DEFAULT_TOKEN_DELAY_MS, DEFAULT_WINDOW_TOKENS, ScriptedServer


@click.command()
@click.option("--port", default=0, show_default=True, help="Port on loopback; 0 picks a free one.")
@click.option(
    "--token-delay-ms",
    default=DEFAULT_TOKEN_DELAY_MS,
    show_default=True,
    envvar="STEPLINE_SCRIPTED_TOKEN_DELAY_MS",
    help="Pause between two pieces of four characters.",
)
@click.option("--window-tokens", default=DEFAULT_WINDOW_TOKENS, show_default=True, help="Context window.")
@click.option(
    "--fixtures",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of recorded streams that a `fixture` fault may name.",
)
def main(port: int, token_delay_ms: float, window_tokens: int, fixtures: Path | None) -> None:
    """Serve the Anthropic Messages API from fixed rules, on 127.0.0.1."""
    try:
        server = ScriptedServer(
            port=port, token_delay_ms=token_delay_ms, window_tokens=window_tokens, fixtures=fixtures
        )
    except OSError as error:
        why = f"port {port} is not available ({error.strerror}); --port 0 picks a free one"
        click.echo(f"error: local_service: {why}", err=True)
        sys.exit(1)
    click.echo(f"scripted model (not an AI) on {server.url}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo("stopped")
    finally:
        server.server_close()


if __name__ == "__main__":
    main()
