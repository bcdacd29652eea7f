"""Sums the content of Parquet files with two readers.

For each file and column it prints the number of values, and a sum in which each value is weighted by its position.
Lines of JSON: reader, file, rows, columns. tests/tests/tables.rs has the same sum in Rust."""

import json
import struct
import sys

import duckdb
import pyarrow.parquet

PRIME = (1 << 61) - 1


def number(value):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value % PRIME
    if isinstance(value, float):
        return int.from_bytes(struct.pack(">d", value), "big") % PRIME
    if isinstance(value, str):
        return int.from_bytes(value.encode(), "big") % PRIME
    raise TypeError(f"a value of {type(value)}")


def column(values):
    there, total = 0, 0
    for place, value in enumerate(values, 1):
        if value is not None:
            there += 1
            total = (total + place * (number(value) + 1)) % PRIME
    return [there, total]


def tell(reader, path, table):
    columns = {name: column(table[name].to_pylist()) for name in table.column_names}
    print(json.dumps({"reader": reader, "file": path, "rows": table.num_rows, "columns": columns}))


for path in sys.argv[1:]:
    tell("arrow", path, pyarrow.parquet.read_table(path))
    found = duckdb.execute("select * from read_parquet(?)", [path])
    tell("duckdb", path, found.to_arrow_table())
