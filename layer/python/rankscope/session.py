"""A session that `rankscope merge` or `rankscope import` wrote, for scripts and notebooks.

    import rankscope

    session = rankscope.open("shared/run1")
    session.findings[0].title
    session.value("/steps/median_ns")
    session.pandas("steps").groupby("rank").exposed_wait_ns.sum()

Every number is one that rankscope computed: this module reads `session.json` and the Parquet tables, and computes no metric.
`formats/SESSION.md` describes both. Times are nanoseconds on the axis of the session.

The tables need `pyarrow`. `pandas`, `polars` and `matplotlib` are imported only by the functions that need them.
"""

from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Optional, Sequence, Union

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import polars
    import pyarrow

__all__ = ["Finding", "NotASession", "Rank", "Session", "open_session"]

#: The newest version of the layout that this module reads.
VERSION = 1

_MERGE = "rankscope merge"


class NotASession(Exception):
    """A directory that has no session, or one that this module does not read. The message says what to do."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """A finding of the report, in the order of the report: the costliest first."""

    #: Kind, such as `late-rank`. Stable over versions.
    kind: str
    #: `critical`, `warning` or `note`.
    severity: str
    #: Title for people.
    title: str
    #: What shows it.
    evidence: list[str]
    #: Probable cause, for people.
    cause: str
    #: What to do, for people.
    advice: str
    #: Positions of its ranks in `Session.ranks`.
    ranks: list[int]
    #: What it costs, in nanoseconds; `None` if that is unknown.
    cost_ns: Optional[int]
    #: All fields, as in `session.json`.
    document: dict[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Rank:
    """A rank of the session."""

    #: Position in `Session.ranks`, and value of the column `rank` of tables.
    index: int
    #: Display name, such as `rank 3`.
    name: str
    #: Number in its world; `None` if it is unknown.
    number: Optional[int]
    #: Name of its host.
    host: str
    #: All fields, as in `session.json`.
    document: dict[str, Any] = dataclasses.field(repr=False)


class Session:
    """A session. Tables are read when they are asked for."""

    def __init__(self, directory: pathlib.Path, summary: dict[str, Any]):
        self._directory = directory
        self._summary = summary

    @property
    def directory(self) -> pathlib.Path:
        """The session directory."""
        return self._directory

    @property
    def summary(self) -> dict[str, Any]:
        """The document `session.json`. `rankscope report --schema` describes it."""
        return self._summary

    def value(self, pointer: str) -> Any:
        """Returns the value at a JSON pointer, such as `/steps/median_ns`; `None` if it is unknown.

        A number that rankscope could not compute has a reason instead: `Session.reason`. Raises `KeyError` if there is no
        such field.
        """
        found = self._at(pointer)
        return found["value"] if _is_figure(found) else found

    def reason(self, pointer: str) -> Optional[str]:
        """Returns why the number at a JSON pointer is unknown; `None` if it is known."""
        found = self._at(pointer)
        return found["reason"] if _is_figure(found) else None

    def _at(self, pointer: str) -> Any:
        found: Any = self._summary
        for part in pointer.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(part) if part.isdigit() else len(found)] if isinstance(found, list) else found[part]
            except (IndexError, KeyError, TypeError, ValueError):
                raise KeyError(f"{self._directory / 'session.json'} has no {pointer}") from None
        return found

    @property
    def ranks(self) -> list[Rank]:
        """The ranks, in the order of the session."""
        hosts = self._summary["hosts"]
        return [
            Rank(rank["index"], rank["name"], rank["number"]["value"], hosts[rank["host"]]["name"], rank)
            for rank in self._summary["ranks"]
        ]

    @property
    def findings(self) -> list[Finding]:
        """The findings, the costliest first."""
        return [
            Finding(
                finding["kind"],
                finding["severity"],
                finding["title"],
                finding["evidence"],
                finding["cause"],
                finding["advice"],
                finding["ranks"],
                finding["cost_ns"]["value"],
                finding,
            )
            for finding in self._summary["findings"]
        ]

    @property
    def tables(self) -> list[str]:
        """The names of the tables of this session."""
        folders = sorted(path for path in self._directory.iterdir() if path.is_dir())
        return [folder.name for folder in folders if next(folder.glob("*.parquet"), None)]

    def table(
        self, name: str, *, columns: Optional[Sequence[str]] = None, ranks: Optional[Iterable[int]] = None
    ) -> pyarrow.Table:
        """Reads a table. One with a file for each rank gets the column `rank`: the position in `Session.ranks`.

        `columns` and `ranks` limit what is read. Raises `KeyError` if the session has no such table.
        """
        arrow, parquet = _pyarrow()
        files = self._files(name)
        wanted = None if ranks is None else set(ranks)
        if wanted is not None and None in files:
            raise ValueError(f"the table {name} has no file for each rank: filter its rows instead")
        parts = []
        for rank, path in files.items():
            if wanted is not None and rank not in wanted:
                continue
            own = None if columns is None else [column for column in columns if rank is None or column != "rank"]
            part = parquet.read_table(path, columns=own, partitioning=None)
            if rank is not None and (columns is None or "rank" in columns):
                part = part.add_column(0, "rank", arrow.repeat(arrow.scalar(rank, arrow.uint32()), part.num_rows))
            parts.append(part)
        if not parts:
            raise KeyError(f"{self._directory} has no table {name} of these ranks")
        table = arrow.concat_tables(parts, promote_options="default")
        return table if columns is None else table.select(list(columns))

    def _files(self, name: str) -> dict[Optional[int], pathlib.Path]:
        """Returns the files of a table by the rank that they belong to."""
        paths = list((self._directory / name).glob("*.parquet"))
        if not paths:
            raise KeyError(f"{self._directory} has no table {name}; it has {', '.join(self.tables)}")
        ranks = {path: path.stem.partition("rank=")[2] for path in paths}
        files = {int(rank) if rank else None: path for path, rank in ranks.items()}
        return {rank: files[rank] for rank in sorted(files, key=lambda rank: -1 if rank is None else rank)}

    def pandas(self, name: str, **options: Any) -> pandas.DataFrame:
        """Reads a table (`Session.table`) as a frame of pandas. Integers that can be missing keep their type."""
        types = _nullable_types(_pyarrow()[0], _needs("pandas"))
        frame: pandas.DataFrame = self.table(name, **options).to_pandas(types_mapper=types.get)
        return frame

    def polars(self, name: str, **options: Any) -> polars.DataFrame:
        """Reads a table (`Session.table`) as a frame of polars."""
        frame: polars.DataFrame = _needs("polars").from_arrow(self.table(name, **options))
        return frame

    @property
    def steps(self) -> pyarrow.Table:
        """The table `steps`: a row for each rank and step."""
        return self.table("steps")

    @property
    def instances(self) -> pyarrow.Table:
        """The table `instances`: a row for the matching calls of all members."""
        return self.table("instances")

    @property
    def operations(self) -> pyarrow.Table:
        """The table `operations`: a row for each call of a rank."""
        return self.table("operations")

    def step_map(self, column: str = "duration_ns", *, ax: Optional[matplotlib.axes.Axes] = None) -> matplotlib.axes.Axes:
        """Draws a column of the table `steps` over ranks and steps, with matplotlib. Returns the axes.

        `duration_ns` is the time from the start to the end of the step on the rank.
        """
        pyplot = _needs("matplotlib.pyplot", "matplotlib")
        of = ["start_ns", "end_ns"] if column == "duration_ns" else [column]
        rows = self.table("steps", columns=["rank", "step", *of]).to_pydict()
        values = [end - start for start, end in zip(rows["start_ns"], rows["end_ns"])] if len(of) == 2 else rows[column]
        if not values:
            raise ValueError("the session has no steps")
        steps = sorted(set(rows["step"]))
        ranks = sorted(set(rows["rank"]))
        at_step = {step: at for at, step in enumerate(steps)}
        at_rank = {rank: at for at, rank in enumerate(ranks)}
        is_time = column.endswith("_ns")
        grid = [[float("nan")] * len(steps) for _ in ranks]
        for rank, step, value in zip(rows["rank"], rows["step"], values):
            if value is not None:
                grid[at_rank[rank]][at_step[step]] = value / 1e6 if is_time else value
        if ax is None:
            _, ax = pyplot.subplots(figsize=(9, 1.2 + 0.25 * min(len(ranks), 40)))
        image = ax.imshow(grid, aspect="auto", interpolation="nearest", cmap="cividis")
        names = [self._summary["ranks"][rank]["name"] for rank in ranks]
        ax.set_yticks(range(len(ranks)) if len(ranks) <= 40 else [], names if len(ranks) <= 40 else [])
        ticks = list(range(0, len(steps), max(1, len(steps) // 10)))
        ax.set_xticks(ticks, [str(steps[at]) for at in ticks])
        ax.set_xlabel("step")
        words = (column[:-3] if is_time else column).replace("_", " ")
        ax.figure.colorbar(image, ax=ax, label=f"{words} (ms)" if is_time else words)
        return ax

    def __repr__(self) -> str:
        ranks, steps = len(self._summary["ranks"]), self._summary["steps"]["count"]
        counts = [(ranks, "rank"), (steps, "step"), (len(self._summary["findings"]), "finding")]
        return f"<rankscope session {self._directory}: {', '.join(_count(*count) for count in counts)}>"

    def _repr_html_(self) -> str:
        return "".join(_as_html(self))


def open_session(directory: Union[str, os.PathLike[str]]) -> Session:
    """Opens a run directory that was merged, or a session directory.

    Raises `NotASession` with a message that says what to do, or `OSError` if the files cannot be read.
    """
    given = pathlib.Path(directory)
    for folder in (given, given / "session"):
        file = folder / "session.json"
        if file.is_file():
            break
    else:
        if not given.is_dir():
            raise NotASession(f"{given} is no directory")
        for folder in (given, given / "session"):
            # A run that was merged in periods (`rankscope merge --every`) has a session for each.
            periods = sorted(found.parent for found in folder.glob("periods/*/session.json"))
            if periods:
                raise NotASession(f"{given} is in {len(periods)} periods: open one, such as {periods[-1]}")
        if next(given.glob("*.rslog"), None):
            raise NotASession(f"{given} has recordings and no session: run `{_MERGE} {given}` first")
        raise NotASession(f"{given} has no session (session.json)")
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotASession(f"{file} cannot be read ({error}): merge the recording again") from error
    version = summary.get("version") if isinstance(summary, dict) else None
    if not isinstance(version, int):
        raise NotASession(f"{file} has no version: it is no session")
    if version > VERSION:
        raise NotASession(f"{file} has version {version}, and this module reads up to {VERSION}: use a newer one")
    return Session(folder, summary)


def _is_figure(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"value", "reason"}


def _needs(module: str, package: Optional[str] = None) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = package or module
        raise ImportError(f"this needs {package}: pip install {package}") from error


def _pyarrow() -> tuple[Any, Any]:
    return _needs("pyarrow"), _needs("pyarrow.parquet", "pyarrow")


def _nullable_types(arrow: Any, pandas: Any) -> dict[Any, Any]:
    """Types of pandas that keep an integer an integer if values are missing."""
    return {
        arrow.int64(): pandas.Int64Dtype(),
        arrow.uint64(): pandas.UInt64Dtype(),
        arrow.uint32(): pandas.UInt32Dtype(),
        arrow.uint8(): pandas.UInt8Dtype(),
        arrow.bool_(): pandas.BooleanDtype(),
    }


#: Parts of host time, in the words and colours of the report (collector/report/src/html/style.css).
_PARTS = (
    ("host_ns", "host time", "#4c9f8b"),
    ("exposed_transfer_ns", "exposed transfer", "#2f6fb0"),
    ("exposed_wait_ns", "exposed wait for peers", "#e0892b"),
    ("other_blocked_ns", "other blocked", "#a7adb3"),
)
_SEVERITIES = {"critical": "#b3261e", "warning": "#a15c00", "note": "#555"}
_MAX_RANKS = 32
_MAX_FINDINGS = 12


def _as_html(session: Session) -> Iterator[str]:
    """Yields the summary as HTML. All texts of the session are escaped."""
    summary, text = session.summary, html.escape
    ranks, steps = summary["ranks"], summary["steps"]
    yield '<div style="font-family:sans-serif;max-width:60em">'
    yield f"<h3>{text(str(session.directory))}</h3>"
    median = session.value("/steps/median_ns")
    shown = _count(steps["count"], "step") + (f" of {median / 1e6:.3g} ms" if median else "")
    place = f"{_count(len(ranks), 'rank')} on {_count(len(summary['hosts']), 'host')}"
    yield f"<p>{place}, {shown}, {_count(summary['totals']['operations'], 'operation')}</p>"
    findings = session.findings
    if findings:
        yield "<ul>"
        for finding in findings[:_MAX_FINDINGS]:
            color = _SEVERITIES.get(finding.severity, "#555")
            yield f'<li><b style="color:{color}">{text(finding.severity)}</b> {text(finding.title)}'
            yield f"<br><small>{text(finding.advice)}</small></li>"
        yield "</ul>"
    more = len(findings) - _MAX_FINDINGS
    if more > 0:
        yield f"<p>and {more} more findings</p>"
    yield from _breakdown_as_html(session)
    yield "</div>"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _breakdown_as_html(session: Session) -> Iterator[str]:
    rows = [row for row in session.summary["breakdown"] if row["window_ns"] > 0]
    if not rows:
        return
    yield "<table><tbody>"
    for row in rows[:_MAX_RANKS]:
        wait = row["exposed_wait_ns"] or 0
        parts = dict(row, exposed_transfer_ns=row["exposed_communication_ns"] - wait, exposed_wait_ns=wait)
        name = html.escape(session.summary["ranks"][row["rank"]]["name"])
        yield f'<tr><td>{name}</td><td><div style="display:flex;width:30em;height:1em">'
        for key, words, color in _PARTS:
            percent = 100 * (parts[key] or 0) / row["window_ns"]
            yield f'<div title="{words}: {percent:.1f} %" style="width:{percent:.2f}%;background:{color}"></div>'
        yield "</div></td></tr>"
    yield "</tbody></table><p><small>"
    yield " · ".join(f'<span style="color:{color}">■</span> {words}' for _, words, color in _PARTS)
    more = len(rows) - _MAX_RANKS
    yield f" · {more} more ranks</small></p>" if more > 0 else "</small></p>"
