#!/usr/bin/env python3
"""Reads a rank log. It was written from formats/ranklog/RANKLOG.md alone and proves that the document suffices.

    ranklog_reader.py LOG.rslog [LIVE.rslive]

Prints one JSON object per line: the log, its properties, communicators, texts, calibrations, losses, calls in flight,
threads and records. Reads a live area if one is named. Uses only the standard library.
"""

import json
import struct
import sys
import zlib

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
RECORD = struct.Struct("<IBBBBQQQQIIIiQ")
RECORD_FIELDS = (
    "generation kind operation flags element_bytes enter_ticks leave_ticks bytes object communicator tag sequence peer aux"
).split()
CALIBRATION = struct.Struct("<QqqIIIIIIq8x")
CALIBRATION_FIELDS = (
    "ticks monotonic_raw_ns realtime_ns half_width_ticks realtime_half_width_ticks realtime_maxerror_us adjtimex_status"
    " counter_trusted reserved boottime_ns"
).split()
KINDS, CAUSES = range(1, 17), range(12)
CALL, THREAD = 1, 8


class Damaged(Exception):
    pass


def signed(value, bits=64):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def record_at(data, at):
    record = dict(zip(RECORD_FIELDS, RECORD.unpack_from(data, at)))
    generation = record.pop("generation")
    return generation, record


class Stride:
    def __init__(self):
        self.last = self.step = 0

    def predicted(self):
        return (self.last + self.step) & U32

    def update(self, value):
        self.step = (value - self.last) & U32
        self.last = value


class Plain:
    """Consecutive numbers: the front of a payload, or its column of extras."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        if self.at >= len(self.data):
            raise Damaged
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = 0
        for shift in range(0, 64, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & U64
        raise Damaged

    def narrow(self):
        value = self.varint()
        if value > U32:
            raise Damaged
        return value

    def zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)


class Bits:
    def __init__(self, data):
        self.data, self.at, self.pending, self.count = data, 0, 0, 0

    def get(self, count):
        while self.count < count:
            if self.at >= len(self.data):
                raise Damaged
            self.pending |= self.data[self.at] << self.count
            self.at += 1
            self.count += 8
        value = self.pending & ((1 << count) - 1)
        self.pending >>= count
        self.count -= count
        return value


def unpack(payload):
    """Returns the groups of a records frame, its records in sequence with their groups, and whether everything
    decoded."""
    groups, sequence = [], []
    try:
        unpack_into(payload, groups, sequence)
    except Damaged:
        return groups, sequence, False
    return groups, sequence, True


def unpack_into(payload, groups, sequence):
    front = Plain(payload)
    quantum = front.narrow()
    if quantum > 16:
        raise Damaged
    lanes, of_lane, total = [], [], 0
    for _ in range(front.varint()):
        names = ("lane", "thread", "ordinal", "chunk", "generation", "first", "count")
        group = {name: front.varint() if name == "ordinal" else front.narrow() for name in names}
        group["held"] = 0
        total += group["count"]
        if group["first"] + group["count"] > 127 or total > 1 << 20:
            raise Damaged
        if group["lane"] not in lanes:
            lanes.append(group["lane"])
            of_lane.append([])
        of_lane[lanes.index(group["lane"])].append(group)
        groups.append(group)
    sizes = [front.varint() for _ in range(5)]
    packed_bytes, bit_bytes = front.varint(), front.varint()
    if sum(sizes) > 80 * total + 64:
        raise Damaged
    packed = payload[front.at : front.at + packed_bytes]
    bits = payload[front.at + packed_bytes : front.at + packed_bytes + bit_bytes]
    if len(packed) != packed_bytes or len(bits) != bit_bytes:
        raise Damaged
    try:
        plain = zlib.decompressobj(-15).decompress(packed, sum(sizes) + 1)
    except zlib.error as error:
        raise Damaged from error
    if len(plain) != sum(sizes):
        raise Damaged
    columns, at = [], 0
    for size in sizes:
        columns.append(plain[at : at + size])
        at += size
    templates_column, masks, lengths, codes, extras = map(Plain, columns)
    bits = Bits(bits)

    def number():
        byte = lengths.byte()
        length = byte & 0x7F
        if length > 64:
            raise Damaged
        magnitude = (1 << (length - 1) | bits.get(length - 1)) if length else 0
        return -magnitude if byte & 0x80 else magnitude

    leave, literal, recent, templates = 0, 0, [], []
    lane_enter, lane_leave = [0] * len(lanes), [0] * len(lanes)
    tags = [Stride() for _ in range(16)]
    for _ in range(total):
        choice = templates_column.byte()
        if choice == 254:
            template = {"lane": extras.narrow(), "sequences": Stride(), "best": 0}
            for name in ("kind", "operation", "flags", "element_bytes"):
                template[name] = extras.byte()
            template["bytes"] = extras.varint()
            template["communicator"] = (extras.narrow() - 1) & U32
            template["peer"] = extras.zigzag()
            if template["lane"] >= len(lanes) or not -(1 << 31) <= template["peer"] < 1 << 31:
                raise Damaged
            templates.append(template)
        else:
            index = extras.varint() if choice == 255 else choice
            if index >= len(templates):
                raise Damaged
            template = templates[index]
        lane = template["lane"]
        mask = masks.byte()
        stride = tags[template["kind"] % 16]
        tag = stride.predicted()
        if mask & 1:
            tag = (tag + number()) & U32
        use = template["sequences"].predicted()
        if mask & 2:
            use = (use + number()) & U32
        addresses, linked = {"object": 0, "aux": 0}, 0
        for bit, name in ((8, "object"), (4, "aux")):
            if not mask & bit:
                continue
            code = codes.byte()
            if code == 64:
                literal = (literal + number()) & U64
                address, linked = literal, 0
                del recent[62:]
            elif 1 <= code <= len(recent):
                address, linked = recent.pop(code - 1)
            else:
                raise Damaged
            recent.insert(0, [address, 0])
            addresses[name] = address
        own_leave = (leave + number()) & U64
        neighbours = (own_leave, lane_leave[lane], lane_enter[lane], linked)
        enter = (neighbours[template["best"]] + number()) & U64
        named = sum(1 for address in addresses.values() if address)
        for pair in recent[:named]:
            if pair[0] in addresses.values():
                pair[1] = enter
        errors = [abs(signed(enter - neighbour)) for neighbour in neighbours]
        template["best"] = errors.index(min(errors))
        template["sequences"].update(use)
        stride.update(tag)
        lane_enter[lane], lane_leave[lane], leave = enter, own_leave, own_leave
        record = {name: template[name] for name in ("kind", "operation", "flags", "element_bytes")}
        record.update(enter_ticks=(enter << quantum) & U64, leave_ticks=(own_leave << quantum) & U64)
        record.update(bytes=template["bytes"], communicator=template["communicator"], tag=tag)
        record.update(addresses, sequence=use, peer=template["peer"])
        waiting = of_lane[lane]
        while waiting and waiting[0]["held"] == waiting[0]["count"]:
            waiting.pop(0)
        if not waiting:
            raise Damaged
        waiting[0]["held"] += 1
        sequence.append((waiting[0], record))


class Log:
    def __init__(self, path, live=None):
        self.properties, self.communicators, self.ends, self.aliases, self.texts, self.streams = {}, {}, {}, {}, {}, {}
        self.calibrations, self.losses, self.in_flight, self.problems = [], [], [], []
        self.frames, self.live_chunks, self.ending = [], [], "torn"
        with open(path, "rb") as file:
            self.data = file.read()
        self.read_segments()
        if live and self.ending == "torn":
            with open(live, "rb") as file:
                self.read_live_area(file.read())
        self.calibrations.sort(key=lambda entry: entry["ticks"])

    def read_segments(self):
        head = self.data[:32]
        if len(head) < 32 or head[:8] != b"RSLOG001":
            sys.exit("not a rank log (the first eight bytes are not RSLOG001)")
        version, self.counter, self.nonce, self.pid, check = struct.unpack_from("<IIQII", head, 8)
        if version > 1:
            sys.exit(f"rank log format {version} is newer than this reader")
        if zlib.crc32(head[:28]) != check:
            sys.exit("the file header's checksum is wrong")
        at = 32
        while at < len(self.data):
            size = self.frame_size(at)
            if size is None:
                start = at
                at = self.data.find(b"RSFr", at + 1)
                while at >= 0 and not self.whole_frame(at):
                    at = self.data.find(b"RSFr", at + 1)
                at = at if at >= 0 else len(self.data)
                self.problems.append((start, f"expected a frame; {at - start} bytes skipped"))
                continue
            if at + 24 + size > len(self.data):
                self.problems.append((at, "the last frame is cut short"))
                return
            self.take_frame(at, self.data[at + 24 : at + 24 + size])
            at += 24 + size

    def frame_size(self, at):
        head = self.data[at : at + 24]
        if len(head) < 24 or head[:4] != b"RSFr" or zlib.crc32(head[:20]) != u32(head, 20):
            return None
        return size if (size := u32(head, 8)) <= 64 << 20 else None

    def whole_frame(self, at):
        size = self.frame_size(at)
        return size is not None and at + 24 + size <= len(self.data)

    def take_frame(self, at, payload):
        kind = self.data[at + 4]
        if zlib.crc32(payload) != u32(self.data, at + 16):
            self.problems.append((at, "the checksum of this frame is wrong"))
        elif kind == 1:
            self.take_definitions(payload)
        elif kind in (2, 7):
            self.frames.append((at, kind, payload))
        elif kind == 3:
            for entry in range(0, len(payload) - 63, 64):
                self.take_calibration(payload, entry, lambda entry: True)
        elif kind == 4:
            self.losses = []
            for entry in range(0, len(payload) - 31, 32):
                self.take_loss(payload[entry + 24], payload[entry + 25], *struct.unpack_from("<QQQ", payload, entry))
        elif kind == 5:
            self.in_flight = []
            for entry in range(0, len(payload) - 71, 72):
                lane, thread = struct.unpack_from("<II", payload, entry)
                self.in_flight.append({"lane": lane, "thread_id": thread, "record": record_at(payload, entry + 8)[1]})
        elif kind == 6:
            self.ending = "closed"
        else:
            self.problems.append((at, f"frame of unknown kind {kind}"))

    def take_calibration(self, data, at, wanted):
        entry = dict(zip(CALIBRATION_FIELDS, CALIBRATION.unpack_from(data, at)))
        del entry["reserved"]
        if entry["ticks"] and wanted(entry):
            self.calibrations.append(entry)

    def take_loss(self, cause, kind, count, first, last):
        if cause in CAUSES and kind in KINDS:
            self.losses.append(dict(cause=cause, kind=kind, count=count, first_ticks=first, last_ticks=last))

    def take_definitions(self, data):
        at, broken = 0, False
        while at + 8 <= len(data):
            word = u64(data, at)
            payload = data[at + 8 : at + 8 + (word & 0xFFFFFF)]
            whole = word and len(payload) == word & 0xFFFFFF and (zlib.crc32(payload) | 1) == word >> 32
            if not whole:
                if not broken:
                    self.problems.append((at, "a definition was not finished"))
                broken = True
                at += 8
                continue
            broken = False
            try:
                self.define(word >> 24 & 0xFF, payload)
            except (struct.error, IndexError, ValueError):
                self.problems.append((at, "a definition is too short"))
            at += 8 + (len(payload) + 7) // 8 * 8

    def define(self, kind, payload):
        def text(part):
            return part.decode("utf-8", "replace")

        if kind == 1:
            end = 1 + payload[0]
            if end > len(payload):
                raise ValueError
            self.properties[text(payload[1:end])] = text(payload[end:])
        elif kind == 2:
            index, library, source, rank, size = struct.unpack_from("<IBBxxII", payload, 0)
            created, parent = struct.unpack_from("<QI", payload, 32)
            if library not in range(1, 5) or source not in range(1, 6):
                raise ValueError
            self.communicators[index] = {
                "library": library, "identity_source": source, "rank": rank, "size": size,
                "identity": payload[16:32].hex(), "created_ticks": created, "parent": parent, "name": text(payload[44:]),
            }
        elif kind == 3:
            self.texts[u32(payload, 0)] = text(payload[4:])
        elif kind == 4:
            self.ends[u32(payload, 0)] = u64(payload, 4)
        elif kind == 5:
            if len(payload) < 20:
                raise ValueError
            self.aliases[payload[4:20].hex()] = u32(payload, 0)
        elif kind == 6:
            index, device, context, number = struct.unpack_from("<4I", payload, 0)
            self.streams[index] = {"device": device, "context": context, "number": number}
        else:
            self.problems.append((0, f"definition of unknown kind {kind}"))

    def read_live_area(self, data):
        if len(data) < 8192 or data[:8] != b"RSLIVE01":
            self.problems.append((0, "not a live area (the first eight bytes are not RSLIVE01)"))
            return
        if u32(data, 8) > 1 or u64(data, 16) != self.nonce:
            self.problems.append((8, "the live area is newer, or another process's"))
            return
        self.ending = "live area"
        for place in range(16):
            known = {entry["ticks"] for entry in self.calibrations}
            self.take_calibration(data, 256 + 64 * place, lambda entry: entry["ticks"] not in known)
        self.losses = []
        for cause in CAUSES:
            for kind in KINDS:
                at = 4096 + 32 * (16 * cause + kind % 16)
                entry = struct.unpack_from("<QQQ", data, at) if at + 32 <= min(u64(data, 48), len(data)) else (0, 0, 0)
                if entry[0]:
                    self.take_loss(cause, kind, *entry)
        start, capacity, used, flushed = u64(data, 56), u64(data, 64), u64(data, 80), u64(data, 88)
        used = min(used, capacity)
        if start + used > len(data):
            self.problems.append((56, "the definitions lie outside the file"))
        else:
            self.take_definitions(data[start + min(flushed, used) : start + used])
        self.in_flight, blind = [], 0
        for lane in range(u32(data, 40)):
            at = u64(data, 48) + 320 * lane
            if at + 320 > len(data):
                self.problems.append((48, "the lanes lie outside the file"))
                break
            if u32(data, at) == 0:
                continue
            blind = min(blind + u64(data, at + 8), U64)
            for slot in range(4):
                used_now, record = record_at(data, at + 64 + 64 * slot)
                if used_now:
                    self.in_flight.append({"lane": lane, "thread_id": u32(data, at + 4), "record": record})
        if blind:
            self.take_loss(5, CALL, blind, u64(data, 112), u64(data, 112))
        for chunk in range(u32(data, 44)):
            at = u64(data, 72) + 8192 * chunk
            if at + 8192 > len(data):
                self.problems.append((72, "chunks lie outside the file"))
                break
            generation, state, lane, thread, ordinal = struct.unpack_from("<IIIIQ", data, at)
            if state == 0:
                continue
            records = []
            for position in range(127):
                committed, record = record_at(data, at + 64 + 64 * position)
                if committed != generation:
                    break
                records.append(record)
            self.live_chunks.append((lane, ordinal, thread, chunk, generation, records))
        self.live_chunks.sort(key=lambda chunk: chunk[:2])

    def records(self):
        """Returns all records in order, each with its thread's (id, name) and its lane."""
        seen, threads, held = {}, {}, []

        def start(lane, thread, continued):
            if not (continued and lane in threads) and threads.get(lane, (None,))[0] != thread:
                threads[lane] = (thread, "")

        def begin(group):
            if "known" in group:
                return
            generation, count = seen.get(group["chunk"], (group["generation"], 0))
            if generation != group["generation"]:
                count = 0
            group["known"] = max(0, count - group["first"])
            seen[group["chunk"]] = (group["generation"], max(count, group["first"] + group["held"]))
            start(group["lane"], group["thread"], group["first"] > 0)

        def take(lane, record):
            if record["kind"] == THREAD:
                name = struct.pack("<QQ", record["bytes"], record["aux"]).split(b"\0")[0]
                threads[lane] = (record["object"] & U32, name.decode("utf-8", "replace"))
            else:
                held.append((threads[lane], lane, record))

        def order(some):
            return sorted(some, key=lambda one: one[2]["leave_ticks"])

        for at, kind, payload in self.frames:
            if kind == 7:
                if len(payload) >= 8:
                    watermark = u64(payload, 0)
                    yield from order(one for one in held if one[2]["leave_ticks"] < watermark)
                    held = [one for one in held if one[2]["leave_ticks"] >= watermark]
                continue
            groups, sequence, whole = unpack(payload)
            if not whole:
                self.problems.append((at, "packed records do not decode"))
            for group, record in sequence:
                begin(group)
                if group["known"]:
                    group["known"] -= 1
                else:
                    take(group["lane"], record)
            for group in groups:
                begin(group)
        for lane, _, thread, chunk, generation, records in self.live_chunks:
            last, count = seen.get(chunk, (generation, 0))
            if last != generation:
                count = len(records) if signed(last - generation, 32) > 0 else 0
            start(lane, thread, count > 0)
            for record in records[count:]:
                take(lane, record)
        yield from order(held)


def main():
    log = Log(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)

    def line(what, **fields):
        print(json.dumps({"what": what, **fields}, sort_keys=True))

    line("log", counter=log.counter, nonce=log.nonce, pid=log.pid, ending=log.ending)
    for key, value in sorted(log.properties.items()):
        line("property", key=key, value=value)
    for index, communicator in sorted(log.communicators.items()):
        line("communicator", index=index, ended_ticks=log.ends.get(index), **communicator)
    for alias, index in sorted(log.aliases.items()):
        line("alias", identity=alias, index=index)
    for index, value in sorted(log.texts.items()):
        line("text", index=index, value=value)
    for index, stream in sorted(log.streams.items()):
        line("stream", index=index, **stream)
    for entry in log.calibrations:
        line("calibration", **entry)
    for loss in log.losses:
        line("loss", **loss)
    for call in log.in_flight:
        line("in flight", **call)
    for (thread, name), lane, record in log.records():
        line("record", thread_id=thread, thread=name, lane=lane, **record)
    for at, what in log.problems:
        print(f"problem at {at}: {what}", file=sys.stderr)
    line("problems", count=len(log.problems))


if __name__ == "__main__":
    main()
