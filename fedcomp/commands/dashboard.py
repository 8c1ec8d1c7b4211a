"""``fedcomp dashboard``: the runs in a browser, and the tokens that let others in."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer
from rich.table import Table

from dashboard.settings import load_settings
from dashboard.store import RunStore
from dashboard.tokens import create_token, list_tokens, revoke_token
from fedcomp.commands.program import program
from fedcomp.commands.tables import print_table
from fedcomp.errors import ConfigError

app = typer.Typer(help="Show the runs in a browser, live.", invoke_without_command=True, pretty_exceptions_enable=False)
tokens = typer.Typer(help="Make, list and revoke the tokens that let others in.", no_args_is_help=True)
app.add_typer(tokens, name="tokens")

Database = Annotated[str | None, typer.Option(help="URL of the runs database; that of FEDCOMP_HOME by default.")]


@app.callback()
def dashboard(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; 127.0.0.1 by default. Others need a token.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 8420 by default, 0 for any free one.")] = None,
    database: Database = None,
    root_path: Annotated[str | None, typer.Option(help="Path under which a reverse proxy serves it: /fedcomp.")] = None,
    require_token: Annotated[
        bool | None, typer.Option("--require-token/--no-token", help="Ask for a token, whatever the host.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="A name by which browsers may reach it; may be given several times.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info (each request), warning or error.")] = None,
) -> None:
    """Show the runs in a browser, live, until Ctrl-C.

    Each option can be set by a variable too: FEDCOMP_DASHBOARD_PORT and so on.
    """
    if context.invoked_subcommand is not None:
        return
    # The web framework takes a second to import, which the other commands need not wait for.
    from dashboard.serving import serve

    settings = load_settings(
        host=host,
        port=port,
        database=database,
        root_path=root_path,
        require_token=require_token,
        allowed_hosts=tuple(allowed_host) if allowed_host else None,
        log_level=log_level,
    )
    if settings.token_required:
        with RunStore(settings.database) as store, store.reading() as session:
            usable = any(token.is_valid() for token in list_tokens(session))
        if not usable:
            why = "require-token=true" if settings.loopback else f"host={settings.host!r} lets other machines in, which"
            raise ConfigError(
                f"{why} asks for a token, and there is none that is valid: make one with "
                f"`{program()} dashboard tokens add NAME`{'' if database is None else ' and the same --database'}"
            )
    elif not settings.loopback:
        typer.echo(f"warning: everybody who reaches {settings.host} may read, change and delete runs", err=True)
    serve(settings, lambda url: typer.echo(f"fedcomp dashboard: {url} (Ctrl-C ends it)"))


@tokens.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Whose token it is, to know it by.")],
    scope: Annotated[str, typer.Option(help="read, or write: change runs and send rounds.")] = "read",
    days: Annotated[float | None, typer.Option(help="Days until it expires; never by default.")] = None,
    database: Database = None,
) -> None:
    """Make a token and print it, this once; the database keeps a digest."""
    if scope not in ("read", "write"):
        raise ConfigError(f"scope={scope!r}: a token's scope is read or write")
    valid_for = None if days is None else timedelta(days=days)
    with RunStore(load_settings(database=database).database) as store, store.writing() as session:
        text, info = create_token(session, name, "write" if scope == "write" else "read", valid_for=valid_for)
    typer.echo(text)
    until = "until it is revoked" if info.expires_at is None else f"until {info.expires_at:%Y-%m-%d %H:%M} UTC"
    typer.echo(f"token {info.id} ({info.name}) may {info.scope} {until}; it is not shown again", err=True)


@tokens.command("list")
def show(database: Database = None) -> None:
    """List the tokens; their text is not kept."""
    with RunStore(load_settings(database=database).database) as store, store.reading() as session:
        found = list_tokens(session)
    if not found:
        typer.echo(f"no tokens; make one with `{program()} dashboard tokens add NAME`")
        return
    table = Table()
    for column in ("id", "name", "scope", "created (UTC)", "expires", "last login", "revoked"):
        table.add_column(column)
    for token in found:
        times = (token.created_at, token.expires_at, token.last_used_at, token.revoked_at)
        table.add_row(
            token.id,
            token.name,
            token.scope,
            *(f"{time:%Y-%m-%d %H:%M}" if time is not None else "-" for time in times),
        )
    print_table(table)


@tokens.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="The token's id, from the list.")], database: Database = None
) -> None:
    """Make a token invalid at once, sessions that it opened too."""
    with RunStore(load_settings(database=database).database) as store, store.writing() as session:
        revoke_token(session, token)
    typer.echo(f"token {token} is revoked")
