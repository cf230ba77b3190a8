"""A client without .proto files, as grpcurl is: asks by reflection what the switch's services are,
and calls one. `reflect.py SOCKET`.

Its last line is JSON: the version of gRPC, and for each version of reflection the services and the
answer of CapabilitiesService."""

import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

CALLED = "vswitch.v1.CapabilitiesService"
STRING, MESSAGE, BYTES = 9, 11, 12


def message_class(pool, name):
    """The class of a message; protobuf changed how it is asked for."""
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def reflection(package):
    """Request and response of the reflection service: what is needed of reflection.proto."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    messages = {
        "Request": [("host", 1, STRING, ""), ("file_containing_symbol", 4, STRING, ""), ("list_services", 7, STRING, "")],
        "Files": [("file", 1, BYTES, "*")], "Service": [("name", 1, STRING, "")], "Services": [("service", 1, MESSAGE, "*Service")],
        "Error": [("code", 1, 5, ""), ("message", 2, STRING, "")],
        "Response": [("files", 4, MESSAGE, "Files"), ("services", 6, MESSAGE, "Services"), ("error", 7, MESSAGE, "Error")],
    }
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            added = message.field.add(name=field, number=number, type=kind, label=3 if of.startswith("*") else 1)
            if kind == MESSAGE:
                added.type_name = f".{package}.{of.lstrip('*')}"
            elif name == "Request":
                added.oneof_index = 0  # what is asked is sent even if it is empty
        if name == "Request":
            message.oneof_decl.add(name="what")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_class(pool, f"{package}.Request"), message_class(pool, f"{package}.Response")


def ask(channel, package, **what):
    """One question to the reflection service."""
    request, response = reflection(package)
    call = channel.stream_stream(f"/{package}.ServerReflection/ServerReflectionInfo", request_serializer=request.SerializeToString,
                                 response_deserializer=response.FromString)
    answer = next(call(iter([request(**what)]), timeout=20))
    if answer.error.message:
        raise SystemExit(f"{package}: {answer.error.message}")
    return answer


def look(channel, package):
    """The services by name, and what the called one answers."""
    services = sorted(each.name for each in ask(channel, package, list_services="").services.service)
    pool, files = descriptor_pool.DescriptorPool(), {}
    for bytes_ in ask(channel, package, file_containing_symbol=CALLED).files.file:
        file = descriptor_pb2.FileDescriptorProto.FromString(bytes_)
        files[file.name] = file

    def add(name):
        """A file behind those that it imports."""
        file = files.pop(name, None)
        if file is not None:
            for imported in file.dependency:
                add(imported)
            pool.Add(file)

    for name in list(files):
        add(name)
    method = pool.FindServiceByName(CALLED).methods[0]
    request, response = (message_class(pool, kind.full_name) for kind in (method.input_type, method.output_type))
    call = channel.unary_unary(f"/{CALLED}/{method.name}", request_serializer=request.SerializeToString, response_deserializer=response.FromString)
    return {"services": services, "answer": json_format.MessageToDict(call(request(), timeout=20))}


def main():
    # Nothing but the path.
    with grpc.insecure_channel(f"unix:{sys.argv[1]}") as channel:
        seen = {package: look(channel, package) for package in ("grpc.reflection.v1", "grpc.reflection.v1alpha")}
    print(json.dumps({"grpc": grpc.__version__, **seen}))


if __name__ == "__main__":
    main()
