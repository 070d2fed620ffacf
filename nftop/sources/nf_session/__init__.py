"""Network functions behind Unix sockets: discovery, connection, retries, deadlines and departure.

A kind supplies a `SocketSearch` (where its sockets are), an `NfClient` (how to connect, what one
poll requests, what the replies mean) and an `NfSource` (its table and its lines in doctor).
"""
