"""A Dockerfile and Compose files, for those who run coordinator or site in containers."""

from __future__ import annotations

from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.programs import FLOWER_ENVIRONMENT, superlink_command

COMPOSE_FILE, DOCKERFILE = "compose.yaml", "Dockerfile"
_NGINX_IMAGE = "nginx:1.28-alpine"

_IMAGE = """\
# The image of coordinator and sites alike. From a checkout of fedcomp {version}:
#   docker build --tag fedcomp:{version} --file {dockerfile} .
FROM python:3.11-slim-bookworm
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY fedcomp fedcomp
COPY server_app server_app
COPY client_app client_app
COPY dashboard dashboard
RUN pip install --no-cache-dir --constraint constraints.txt .
WORKDIR /
"""

_COORDINATOR = """\
# The coordinator in containers: docker compose --file {path} up --detach
# Commands of Flower: docker compose --file {path} exec superlink flwr run ...
services:
  superlink:
    image: fedcomp:{version}
    pull_policy: never
    user: "{user}"
    restart: unless-stopped
    init: true
    stop_grace_period: 60s
    working_dir: {state}
    # Control and Runtime stay on this container's loopback; the proxy shares it.
    command: {command}
    environment:
{environment}
    # The same path inside, since the folder's files name each other by it.
    volumes:
      - {folder}:{folder}
    ports:
      - "{port}:{port}"
  proxy:
    image: {nginx}
    restart: unless-stopped
    network_mode: "service:superlink"
    user: "{user}"
    command: ["nginx", "-c", "{deploy}/nginx.conf", "-g", "daemon off;"]
    tmpfs:
      - /tmp
    volumes:
      - {folder}:{folder}:ro
    depends_on:
      - superlink
"""

_SITE = """\
# The site in a container. Once, in this folder: make the image (see Dockerfile), and a folder for what it keeps:
#   mkdir state
# Then, as the user who owns this folder's files:
#   FEDCOMP_USER="$(id -u):$(id -g)" docker compose up --detach
services:
  supernode:
    image: fedcomp:{version}
    pull_policy: never
    user: "${{FEDCOMP_USER:-1000:1000}}"
    restart: unless-stopped
    init: true
    stop_grace_period: 60s
    working_dir: /state
    command: {command}
    environment:
{environment}
    volumes:
      - .:/site:ro
      - ./state:/state
      # The folder that site.toml names under data, by the same path:
      # - /srv/our-data:/srv/our-data:ro
    # With an NVIDIA GPU and its container toolkit:
    # gpus: all
"""


def dockerfile(version: str, path: str) -> str:
    """Return the Dockerfile of the image that coordinator and sites use; ``path`` is where it lies."""
    return _IMAGE.format(version=version, dockerfile=path)


def coordinator_compose(federation: Federation, folder: FederationFolder, *, version: str, user: str) -> str:
    """Return the coordinator's Compose file: SuperLink and proxy; ``user`` is ``uid:gid`` of the folder's owner."""
    return _COORDINATOR.format(
        path=folder.deploy / COMPOSE_FILE,
        version=version,
        user=user,
        state=folder.state,
        command=_list(superlink_command(folder, port=federation.local_port)),
        environment=_environment({"HOME": str(folder.state), **folder.environment(federation)}),
        folder=folder.path,
        port=federation.port,
        nginx=_NGINX_IMAGE,
        deploy=folder.deploy,
    )


def site_compose(command: list[str], *, version: str) -> str:
    """Return a site's Compose file; in the command the profile lies at ``/site/site.toml``."""
    return _SITE.format(
        version=version,
        command=_list(command),
        environment=_environment({"HOME": "/state", "FLWR_HOME": "/state/flwr", "FEDCOMP_HOME": "/state/fedcomp"}),
    )


def _environment(more: dict[str, str]) -> str:
    return "\n".join(f"      {key}: {_string(value)}" for key, value in {**more, **FLOWER_ENVIRONMENT}.items())


def _list(words: list[str]) -> str:
    return "[" + ", ".join(_string(word) for word in words) + "]"


def _string(text: str) -> str:
    # In single quotes YAML reads everything as it is; Compose itself reads $.
    return "'" + text.replace("'", "''").replace("$", "$$") + "'"
