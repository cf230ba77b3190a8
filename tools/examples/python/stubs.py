"""Clients of the switch's services without grpc_tools: protoc's Python has the messages, and the
descriptors of services name their methods."""

import importlib

import grpc

MESSAGE_MAX = 16 << 20  # bytes; the switch takes as much


def connect(socket):
    """A channel to the switch that listens at the path `socket`."""
    return grpc.insecure_channel(f"unix:{socket}", options=[("grpc.max_receive_message_length", MESSAGE_MAX)])


class Stub:
    """A service by its file and name, `Stub(channel, "antrea.v1.pod", "PodService")`: its methods
    are this object's."""

    def __init__(self, channel, file, name):
        module = importlib.import_module(f"{file}_pb2")
        service = module.DESCRIPTOR.services_by_name[name]
        for method in service.methods:
            setattr(self, method.name, self._call(channel, service, method))

    @staticmethod
    def _call(channel, service, method):
        request, response = _message(method.input_type), _message(method.output_type)
        ways = "_".join("stream" if streams else "unary" for streams in _streams(method))
        return getattr(channel, ways)(
            f"/{service.full_name}/{method.name}", request_serializer=request.SerializeToString, response_deserializer=response.FromString)


def _streams(method):
    """Whether requests and whether responses are streams: the descriptor's own properties came with
    a later protobuf than Debian's."""
    from google.protobuf import descriptor_pb2

    proto = descriptor_pb2.MethodDescriptorProto()
    method.CopyToProto(proto)
    return proto.client_streaming, proto.server_streaming


def _message(descriptor):
    """The class of a message."""
    module = importlib.import_module(descriptor.file.name.removesuffix(".proto").replace("/", ".") + "_pb2")
    return getattr(module, descriptor.name)
