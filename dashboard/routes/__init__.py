"""The dashboard's routes, one file a page or a part of the API."""
