"""Keys of a sealed federation in a folder, as its coordinator and its sites have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedcomp.sealing.keys import SERVER_KEY, SERVER_PUBLIC, SITE_KEY, SITES, make_key, public_text, save_public


@dataclass(frozen=True)
class SealedFolders:
    """Where the keys are: ``server`` for FEDCOMP_SEALING, one folder a site for its node config."""

    root: Path

    @property
    def server(self) -> Path:
        return self.root / "server"

    def site(self, name: str) -> Path:
        return self.root / "sites" / name

    def write_roster(self, names: Iterable[str]) -> None:
        lines = [f'{name} = "{public_text(make_key(self.site(name) / SITE_KEY).public_key())}"' for name in names]
        (self.server / SITES).write_text("\n".join(["[sites]", *lines]))

    def nodes(self, names: Iterable[str]) -> dict[int, dict[str, str | int | float | bool]]:
        """Return node configs of sites that have these names, from node 1000 on."""
        all_names = list(names)
        return {
            1000 + i: {
                "partition-id": i,
                "num-partitions": len(all_names),
                "site": name,
                "sealing": str(self.site(name)),
            }
            for i, name in enumerate(all_names)
        }


def sealed_folders(root: Path, names: Iterable[str]) -> SealedFolders:
    """Make a server's key, a key a site, and pin each with the other."""
    folders = SealedFolders(root)
    server = make_key(folders.server / SERVER_KEY)
    all_names = list(names)
    for name in all_names:
        make_key(folders.site(name) / SITE_KEY)
        save_public(folders.site(name) / SERVER_PUBLIC, server.public_key())
    folders.write_roster(all_names)
    return folders
