"""What is done to a server that should harm nobody: hostile clients, bad disks, kills, plug-ins.

Each harness is one command that starts a server of its own process and asks it over sockets. What
must not live here: anything that knows the inside of the server.
"""
