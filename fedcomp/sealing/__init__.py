"""Sealing: messages between the server app and one site that nobody between them can read or change."""
