"""What can be wrong with data; each message names the file, what was expected and what to do."""

from __future__ import annotations

from fedcomp.errors import FedcompError


class DataError(FedcompError):
    """Base class: data cannot be read, prepared or used."""


class MissingData(DataError):
    """A file or a prepared data set that is needed is not there."""


class TruncatedData(DataError):
    """A file ends before what it begins with says it should."""


class DamagedData(DataError):
    """A file's checksum is not the one it should have."""


class MalformedData(DataError):
    """A file is whole but does not hold what its form requires."""


class UnknownSource(DataError):
    """What lies in a folder or file is none of the forms that can be read, or more than one of them."""


class MissingReader(DataError):
    """Reading this form needs a package that is not installed."""


class DataExists(DataError):
    """A prepared data set of this name is there already."""
