// A minimal implementation of the protobuf wire format for the engine's RPC: no schema, no dependencies.

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}

/** A field of wire type 0. */
export const intField = (number, value) => Buffer.concat([varint(number << 3), varint(value)]);

/** A field of wire type 2: a string, bytes or a message. */
export const bytesField = (number, bytes) => Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);

/** Iterates over the fields of one message: `{number, value}` or `{number, bytes}`. */
export class Reader {
  #bytes;
  #at = 0;

  constructor(bytes) {
    this.#bytes = bytes;
  }

  /** A Number while it is exact, a BigInt above. */
  #varint() {
    let value = 0, scale = 1;
    for (let i = 0; i < 7; i++) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) throw new Error("truncated message");
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
    let wide = BigInt(value);
    for (let shift = 49n; ; shift += 7n) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) throw new Error("truncated message");
      wide |= BigInt(byte & 127) << shift;
      if (byte < 128) return wide;
    }
  }

  packedVarints() {
    const values = [];
    while (this.#at < this.#bytes.length) values.push(this.#varint());
    return values;
  }

  *[Symbol.iterator]() {
    while (this.#at < this.#bytes.length) {
      const tag = Number(this.#varint());
      const number = tag >>> 3;
      const type = tag & 7;
      if (type === 0) {
        yield { number, value: this.#varint() };
        continue;
      }
      const length = type === 2 ? Number(this.#varint()) : type === 1 ? 8 : type === 5 ? 4 : undefined;
      if (length === undefined || this.#at + length > this.#bytes.length) throw new Error(`field ${number}: wire type ${type}`);
      const bytes = this.#bytes.subarray(this.#at, (this.#at += length));
      yield { number, bytes };
    }
  }
}
