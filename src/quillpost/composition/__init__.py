"""The printed page: a wish and its recipients in, PDF or PNG bytes out.

Pure: no database, no network, no clock, no chance. The same input gives the same bytes.
"""
