"""Listeners, connections and the request channel: bytes from sockets become frames, replies leave in request order.

`SocketServer` is the room's face; the broker hands it a function that takes frames and one that ends a turn.
"""
