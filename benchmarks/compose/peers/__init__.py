"""One module a peer, named after it. Each knows one library and how its own users would draw the job.

A module's `start(sheet)` returns a Contender. Modules are imported only where their library may be.
"""
