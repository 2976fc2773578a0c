"""The socket of the load generator reads replies in place, whatever their size."""

import socket
import threading

from tidelog.cli.perf._wire import RawSocket
from tidelog.client import BrokerNode


def test_replies_of_any_size_come_whole_and_in_order():
    sizes = [10, 3_000_000, 0, 5, 1_500_000, 7]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                for number, size in enumerate(sizes):
                    connection.sendall(size.to_bytes(4, "big") + bytes([number]) * size)

        thread = threading.Thread(target=serve)
        thread.start()
        raw = RawSocket(BrokerNode(0, *listener.getsockname()), timeout_s=5.0)
        try:
            for number, size in enumerate(sizes):
                assert raw.receive() == bytes([number]) * size
        finally:
            raw.close()
            thread.join()
