"""The messages of peer.proto, made at run time: no compiler has to be installed.

A change of peer.proto is a change here.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "neargraph.peer"
RUN = f"/{PACKAGE}.Peer/Run"
STATS = f"/{PACKAGE}.Peer/Stats"
FIELDS = {
    "RunRequest": [("nodes", 1, "TYPE_INT64", "LABEL_REPEATED")],
    "RunReply": [
        ("shape", 1, "TYPE_INT64", "LABEL_REPEATED"),
        ("values", 2, "TYPE_BYTES", "LABEL_OPTIONAL"),
    ],
}


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="neargraph/peer.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            message.field.add(
                name=field,
                number=number,
                type=getattr(descriptor_pb2.FieldDescriptorProto, kind),
                label=getattr(descriptor_pb2.FieldDescriptorProto, label),
            )
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


RunRequest = _class("RunRequest")
RunReply = _class("RunReply")
