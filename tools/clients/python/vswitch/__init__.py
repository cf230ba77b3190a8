"""A client of vswitch: `connect` makes the channel, `vswitch.v1` and `antrea.v1` have the messages
and stubs."""

import os

import grpc

SOCKET = "/run/vswitch/vswitch.sock"  # where vswitchd listens unless configured otherwise
MESSAGE_MAX = 64 << 20  # bytes; answers of large switches are longer than the default of gRPC


def connect(socket=None):
    """A channel to the switch that listens at the path `socket`.

    Not given: $VSWITCH_SOCKET, else the default. The channel connects with its first call, and
    again after a restart of the switch."""
    socket = socket or os.environ.get("VSWITCH_SOCKET") or SOCKET
    options = [
        ("grpc.max_receive_message_length", MESSAGE_MAX),
        # A switch that is back after a restart is found within a second.
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    return grpc.insecure_channel(f"unix:{socket}", options=options)
