"""``fedcomp site``: set a federation of real sites up, change it, and check a site."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedcomp.commands import site_up
from fedcomp.commands.program import program
from fedcomp.commands.tables import make_table, print_table
from fedcomp.site.authority import AUTHORITY_DAYS, SERVER_DAYS, fingerprint, read_certificate
from fedcomp.site.checks import check_site
from fedcomp.site.errors import BadFederation, BadHost, SuperLinkRefused
from fedcomp.site.federation import FederationFolder
from fedcomp.site.findings import Verdict
from fedcomp.site.membership import add_site, revoke_site
from fedcomp.site.names import site_names
from fedcomp.site.profile import PROFILE_FILE
from fedcomp.site.renewal import renew_certificate_authority, renew_server
from fedcomp.site.setup import LOCAL_PORT, PORT, Plan, create_federation
from fedcomp.site.superlink_list import synchronize
from fedcomp.site.supernode_keys import key_fingerprint

app = typer.Typer(help="Set a federation of real sites up, change it, and check or run a site.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The coordinator's folder.")]
_FOLDER = Path("federation")


@app.callback()
def site() -> None:
    """Set a federation of real sites up, change it, and check or run a site."""


app.command("up")(site_up.up)


@app.command("init")
def init(
    folder: Folder = _FOLDER,
    sites: Annotated[int | None, typer.Option(help="How many sites; they are called site-1 and so on.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="A site's name; once for each site.")] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address by which sites reach the coordinator, the one they are told first."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on which they reach it.")] = PORT,
    local_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the SuperLink on loopback.")] = LOCAL_PORT,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Parts of a data set that all sites have in common; one a site.")
    ] = None,
    sealed: Annotated[
        bool, typer.Option("--sealed/--unsealed", help="Whether sites refuse messages that are not sealed.")
    ] = True,
    days: Annotated[float, typer.Option(min=0.01, help="Days that the server certificate lasts.")] = SERVER_DAYS,
    authority_days: Annotated[float, typer.Option(min=0.01, help="Days that the authority lasts.")] = AUTHORITY_DAYS,
    force: Annotated[bool, typer.Option("--force", help="Begin anew in a folder that is not empty.")] = False,
) -> None:
    """Make keys, certificates and configuration: the coordinator's folder, and in it an archive for each site."""
    plan = Plan(
        hosts=tuple(host or _ask_for_hosts()),
        names=site_names(sites, name or ()),
        port=port,
        local_port=local_port,
        partitions=partitions,
        sealed=sealed,
        days=days,
        authority_days=authority_days,
    )
    made = create_federation(folder, plan, now=_now(), programs=Path(sys.executable).parent.absolute(), force=force)
    paths = FederationFolder(folder.absolute())
    _print_certificates(paths)
    for each in made.active:
        typer.echo(f"for {each}: {paths.archive(each)}")
    typer.echo("each archive holds secrets of its site: hand it over safely, then delete it here")
    typer.echo(f"what to do next is in {paths.path / 'README.md'}")


@app.command("show")
def show(folder: Folder = _FOLDER) -> None:
    """Show sites, keys, and when certificates end."""
    paths = FederationFolder(folder.absolute())
    federation = paths.load()
    typer.echo(f"sites reach the coordinator at {federation.address}, port {federation.port}")
    _print_certificates(paths)
    table = make_table(None, ("site", "partition", "SuperNode key", "archive", "state"))
    for column in table.columns:
        column.justify, column.no_wrap = "left", False
    for name, entry in federation.sites.items():
        archive = "still here" if paths.archive(name).exists() else "-"
        state = f"revoked {entry.revoked}" if entry.revoked else "active"
        digest = key_fingerprint(entry.supernode_key.encode())
        table.add_row(name, f"{entry.partition_id} of {federation.num_partitions}", digest, archive, state)
    print_table(table)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="The new site's name.")],
    folder: Folder = _FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Give a site that is there new keys.")] = False,
) -> None:
    """Add a site: new keys, and an archive for it."""
    paths = FederationFolder(folder.absolute())
    before = paths.load()
    after = add_site(folder, name, now=_now(), force=force)
    typer.echo(f"for {name}: {paths.archive(name)}")
    typer.echo(f"let it in, where the SuperLink runs: {program()} site sync {folder}")
    if after.num_partitions != before.num_partitions:
        typer.echo(
            f"num-partitions is {after.num_partitions} now; where runs deal out a common data set, change it in the "
            "site.toml of the other sites as well"
        )


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="The site.")],
    folder: Folder = _FOLDER,
) -> None:
    """Shut a site out: here, where its archive is deleted, and at the SuperLink, which must be running on this host."""
    was_registered = FederationFolder(folder.absolute()).load().site(name).node_id
    revoke_site(folder, name, now=_now())
    typer.echo(f"{name} is revoked: from the next run on the server app takes no sealed message of it")
    if not was_registered:
        typer.echo(
            f"`{program()} site sync` had not registered it; if you did so by hand, unregister it by hand: "
            "flwr supernode unregister NODE_ID coordinator",
            err=True,
        )
    try:
        _synchronize(folder)
    except SuperLinkRefused as error:
        typer.echo(
            f"the SuperLink was not told and still lets {name} in: {error}\n"
            f"run this where it runs: {program()} site sync {folder}",
            err=True,
        )
        raise typer.Exit(1) from error


@app.command("sync")
def sync(folder: Folder = _FOLDER) -> None:
    """Tell the SuperLink, which must be running on this host, who was added and who was revoked."""
    if _synchronize(folder) == 0:
        typer.echo("nothing to do: the SuperLink knows all of the sites, and none that was revoked")


@app.command("renew")
def renew(
    folder: Folder = _FOLDER,
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address that the server certificate shall be for as well.")
    ] = None,
    authority: Annotated[
        bool, typer.Option("--authority", help="Renew the authority too; sites then need the new ca.crt in time.")
    ] = False,
    days: Annotated[float, typer.Option(min=0.01, help="Days that the server certificate lasts.")] = SERVER_DAYS,
    authority_days: Annotated[float, typer.Option(min=0.01, help="Days that the authority lasts.")] = AUTHORITY_DAYS,
) -> None:
    """Give the server a new certificate; sites need nothing new for it."""
    paths = FederationFolder(folder.absolute())
    paths.load()
    if authority:
        renew_certificate_authority(folder, now=_now(), days=authority_days)
    renew_server(folder, now=_now(), hosts=host or (), days=days)
    _print_certificates(paths)
    typer.echo("restart the SuperLink and reload nginx, so that they use it")
    if authority:
        typer.echo(f"send {paths.ca_certificate} to the sites, for the ca.crt beside their site.toml; it is no secret")


@app.command("check")
def check(
    profile: Annotated[Path, typer.Option(help="The site's profile.")] = Path(PROFILE_FILE),
) -> None:
    """Say in plain words whether this site is ready, as the user that its SuperNode runs as."""
    findings = check_site(profile.absolute(), clock=_now)
    for finding in findings:
        typer.echo(str(finding))
    bad = sum(finding.verdict is Verdict.WRONG for finding in findings)
    if bad:
        typer.echo(f"{bad} of {len(findings)} checks found something wrong", err=True)
        raise typer.Exit(1)


def _ask_for_hosts() -> list[str]:
    """Ask for the names in the server certificate; a program that cannot answer gets an error."""
    if not sys.stdin.isatty():
        raise BadHost("no host: give --host NAME, the name or address by which sites reach the coordinator")
    answer = typer.prompt("Names or addresses by which sites reach the coordinator, the one they are told first")
    return str(answer).replace(",", " ").split()


def _print_certificates(paths: FederationFolder) -> None:
    for what, path in (("authority", paths.ca_certificate), ("server", paths.server_certificate)):
        try:
            certificate = read_certificate(path.read_bytes())
        except OSError as error:
            raise BadFederation(f"{path} cannot be read: {error.strerror}; restore it from a backup") from error
        left = (certificate.not_valid_after_utc - _now()).total_seconds() / 86400
        until = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        state = f"until {until}, {left:,.0f} days" if left > 0 else f"ENDED {until}; run `{program()} site renew`"
        typer.echo(f"{what + ':':<10} {state}")
        typer.echo(f"{'':<10} {fingerprint(certificate)}")


def _synchronize(folder: Path) -> int:
    changes = 0
    for line in synchronize(folder):
        typer.echo(line)
        changes += 1
    return changes


def _now() -> datetime:
    return datetime.now(UTC)
