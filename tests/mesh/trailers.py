"""Sends a request of headers and trailers, without a body, over HTTP/2. Prints its status, and fails when that is 200.

Usage: trailers.py PORT PATH
"""
import socket
import struct
import sys


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header as HPACK has it without a table and without Huffman's code."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


port, path = int(sys.argv[1]), sys.argv[2].encode()
head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"shop.example"),
        (b"user-agent", b"a"), (b"accept", b"*/*"), (b"content-type", b"application/x-www-form-urlencoded")]
peer = socket.create_connection(("127.0.0.1", port), timeout=5)
peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)
             + frame(1, 0x4, 1, b"".join(literal(*field) for field in head))
             + frame(1, 0x5, 1, literal(b"x-checksum", b"1")))
# Indices of the static table: statuses that have one. Others come as a literal, which is none of 200.
STATUSES = {0x88: "200", 0x89: "204", 0x8a: "206", 0x8b: "304", 0x8c: "400", 0x8d: "404", 0x8e: "500"}
rest, status = b"", None
try:
    while status is None and (data := peer.recv(65536)):
        rest += data
        while len(rest) >= 9 and len(rest) >= 9 + int.from_bytes(rest[:3], "big"):
            length, kind = int.from_bytes(rest[:3], "big"), rest[3]
            payload, rest = rest[9:9 + length], rest[9 + length:]
            if kind == 3:
                status = "reset"
            elif kind == 1:
                status = STATUSES.get(payload[0], "neither 200 nor another of the static table")
            elif kind == 4:
                peer.sendall(frame(4, 1, 0))
except socket.timeout:
    status = "no answer"
print(status)
sys.exit(status == "200")
