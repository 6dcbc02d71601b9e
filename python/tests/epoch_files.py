"""The bytes of a compiled epoch's file by docs/reference/compiled.md, and how to forge it."""

import json

import numpy as np

BLOCK = 4096


def head_bytes(content):
    """Whole blocks before the maps."""
    text = int.from_bytes(content[12:16], "little")
    return -(-(32 + text) // BLOCK) * BLOCK


def regions(content):
    """Places of each region of a file, by what it is."""
    text = int.from_bytes(content[12:16], "little")
    tail = len(content) - BLOCK
    index = int.from_bytes(content[tail + 16 : tail + 24], "little")
    count = int.from_bytes(content[tail + 24 : tail + 32], "little")
    places = {"magic": 0, "version": 8, "length": 12, "crc of text": 16, "crc of maps": 20}
    places |= {"reserved": 24, "text": 32, "text, last": 31 + text, "after text": 33 + text}
    places |= {"index": index, "index, last": index + 24 * count - 1, "after index": tail - 1}
    places |= {"tail": tail, "tail version": tail + 8, "tail index crc": tail + 12}
    places |= {"tail batches": tail + 24, "tail head": tail + 56, "tail rows": tail + 64}
    places |= {"tail padding": tail + 3000, "tail crc": tail + BLOCK - 1}
    entries = np.frombuffer(content[index : index + 24 * count], "<u8").reshape(-1, 3)
    places |= {"tail hot crc": tail + 60}
    for batch in (0, count // 2, count - 1):
        start, size = int(entries[batch, 0]), int(entries[batch, 1])
        places[f"batch {batch}"] = start
        places[f"batch {batch}, numbers"] = start + 20
        places[f"batch {batch}, middle"] = start + size // 2
        places[f"batch {batch}, last"] = start + size - 1
    maps, records = head_bytes(content), int(entries[0, 0])
    if maps < records:
        places["maps"] = maps
    tables = json.loads(content[32 : 32 + text])["tables"]
    hot = maps + -(-sum(-(-table["rows"] // 64) * 8 for table in tables) // BLOCK) * BLOCK
    if hot < records:
        places |= {"hot rows": hot, "hot rows, middle": (hot + records) // 2}
        places["hot rows, last"] = records - 1
    return places


def as_version_1(content):
    """The same with the version that both ends of a file of the first format have."""
    changed = bytearray(content)
    tail = len(content) - BLOCK
    for place in (8, tail + 8):
        changed[place : place + 4] = (1).to_bytes(4, "little")
    changed[-4:] = crc32c(changed[tail:-4]).to_bytes(4, "little")
    return bytes(changed)


def crc32c(content):
    """CRC-32C (Castagnoli), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
