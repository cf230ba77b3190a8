"""A client by TCP with mutual TLS: `tls.py ADDRESS CA CERT KEY METHOD...`, each method SERVICE/NAME
without the package vswitch.v1.

Its last line is JSON: the version of gRPC, and for each method the status and the request's id."""

import json
import sys
from pathlib import Path

import grpc

LIMIT_S = 60


def call(channel, method):
    """The status of a call with an empty message, and the id that the switch gave it."""
    unary = channel.unary_unary(f"/vswitch.v1.{method}", request_serializer=bytes, response_deserializer=bytes)
    try:
        _, done = unary.with_call(b"", timeout=LIMIT_S)
    except grpc.RpcError as error:
        done = error
    metadata = dict([*(done.initial_metadata() or ()), *(done.trailing_metadata() or ())])
    return {"status": done.code().name, "id": metadata.get("x-request-id"), "details": done.details()}


def main():
    """Makes the calls."""
    address, ca, cert, key, *methods = sys.argv[1:]
    ca, cert, key = (Path(file).read_bytes() for file in (ca, cert, key))
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert)) as channel:
        print(json.dumps({"grpc": grpc.__version__, "calls": {method: call(channel, method) for method in methods}}))


if __name__ == "__main__":
    main()
