"""Folders for files that others look into: on this machine, over SFTP, or in the file store."""
