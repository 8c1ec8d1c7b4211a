"""What can go wrong when a federation of real sites is set up."""

from __future__ import annotations

from fedcomp.errors import ConfigError, FedcompError


class NotWritten(FedcompError):
    """A file or folder is there already, or cannot be written; nothing was replaced."""


class BadFederation(FedcompError):
    """The coordinator's folder is no federation, or a file of it cannot be used."""


class UnknownSiteName(FedcompError):
    """No site of that name is in the federation."""


class SiteExists(FedcompError):
    """A site of that name is in the federation already."""


class SiteRevoked(FedcompError):
    """The site was revoked before."""


class BadHost(ConfigError):
    """Neither a DNS name nor an IP address."""


class BadSiteName(ConfigError):
    """A name that cannot be a site's."""


class BadCertificate(FedcompError):
    """A certificate or its key cannot be read, or they do not belong together."""


class BadKey(FedcompError):
    """A private or public key cannot be read, or is of another kind than needed."""


class ProfileError(ConfigError):
    """A site profile is missing, cannot be read, or says something that is not allowed."""


class WrongVersion(FedcompError):
    """The site has other versions than the coordinator; what to install is named."""


class SuperLinkRefused(FedcompError):
    """The SuperLink could not be asked, or did not do what it was asked; what it did before is noted."""
