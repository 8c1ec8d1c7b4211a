"""An nginx configuration through which sites reach the Fleet API and nothing else of the SuperLink."""

from __future__ import annotations

from fedcomp.site.federation import Federation, FederationFolder

SERVER_FILE, MAIN_FILE = "fedcomp-nginx.conf", "nginx.conf"

# What nginx matched is what it passes on ($uri, decoded and without dots), so that no spelling of a path gets past the
# pattern. Objects travel in pieces of 5 MB; a SuperNode asks again and again, and none of that is worth a log line.
_SERVER = """\
# Sites reach /v1/fleet/ and nothing else. Include it in the http block of nginx: a link in /etc/nginx/conf.d does.
server {{
    listen {port} ssl;
    listen [::]:{port} ssl;  # remove this line where IPv6 is off
    server_name {names};

    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    server_tokens off;

    location ~ ^/v1/fleet/[a-z-]+$ {{
        limit_except POST {{ deny all; }}
        access_log off;
        client_max_body_size 64m;
        proxy_request_buffering off;
        proxy_buffering off;
        proxy_http_version 1.1;
        proxy_read_timeout 300s;
        proxy_send_timeout 300s;
        proxy_pass https://127.0.0.1:{local_port}$uri;
        proxy_set_header Host $http_host;
        proxy_set_header Connection "";
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate {authority};
        proxy_ssl_name localhost;
    }}

    location / {{
        return 404;
    }}
}}
"""

_MAIN = """\
# For an nginx of its own: nginx -c {folder}/{main}
worker_processes auto;
pid {temporary}/fedcomp-nginx.pid;
error_log stderr warn;
events {{
    worker_connections 4096;
}}
http {{
    access_log off;
    client_body_temp_path {temporary}/fedcomp-nginx-body;
    proxy_temp_path {temporary}/fedcomp-nginx-proxy;
    fastcgi_temp_path {temporary}/fedcomp-nginx-fastcgi;
    uwsgi_temp_path {temporary}/fedcomp-nginx-uwsgi;
    scgi_temp_path {temporary}/fedcomp-nginx-scgi;
    include {folder}/{server};
}}
"""


def server_block(federation: Federation, folder: FederationFolder) -> str:
    """Return the ``server`` block: TLS on the public port, the Fleet API behind it."""
    return _SERVER.format(
        port=federation.port,
        names=" ".join(f"[{host}]" if ":" in host else host for host in federation.hosts),
        certificate=folder.server_certificate,
        key=folder.server_key,
        local_port=federation.local_port,
        authority=folder.ca_certificate,
    )


def main_file(folder: FederationFolder, *, temporary: str = "/tmp") -> str:  # noqa: S108 - an nginx of its own user
    """Return a whole configuration that includes the ``server`` block, for an nginx that serves nothing else."""
    return _MAIN.format(folder=folder.deploy, main=MAIN_FILE, server=SERVER_FILE, temporary=temporary)
