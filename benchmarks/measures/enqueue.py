"""Jobs pushed: one caller, 100 callers on one agent, 100 callers on 100 agents."""

from __future__ import annotations

from typing import Any

from benchmarks.figures import Spread, ratios, short, spread, sync_ms
from benchmarks.fresh import run_fresh
from benchmarks.measures import Place
from benchmarks.peers.peer import Load
from benchmarks.report import Report, Row, Table

#: (callers, agents), and the share of the floor to be reached on a fast disk and on one that takes 1 ms or more.
_SHAPES = (
    ("one caller", 1, 1, 0.7, 0.7),
    ("100 callers on one agent", 100, 1, 0.6, 0.7),
    ("100 callers on 100 agents", 100, 100, 0.4, 0.6),
)
_METHODS = {"push": "`jobs.push`", "remind": "`schedule`"}
_SLOW_MS = 1.0
_BEST_PEER = 5.0

#: Jobs a second in each round, by (shape, who, method).
Figures = dict[tuple[str, str, str], list[float]]


def measure(place: Place) -> Report:
    """Compare agentkit with the floor of the same durability, and with every peer."""
    pairs = (("agentkit-full", "floor-full"), ("agentkit-process", "floor-normal"))
    syncs: list[float] = []
    figures = _rounds(place, pairs, place.scale.peers, syncs)
    report = Report(raw={**_raw(figures), "sync_ms": syncs})
    is_slow = spread(syncs).median >= _SLOW_MS
    for kit, floor in pairs:
        report.rows += _rows(
            figures, kit, floor, is_slow=is_slow, suffix=f"{kit} / {floor}", judged=kit == "agentkit-full"
        )
    report.rows += _against_best_peer(figures, place.scale.peers)
    title = "Jobs pushed a second"
    report.tables.append(_table(title, figures, [*_columns(pairs), *((peer, "push") for peer in place.scale.peers)]))
    report.notes.append(
        f"the disk took {spread(syncs).show()} ms to sync 4 KiB; the shares of the floor asked for are those of "
        f"{'1 ms or more' if is_slow else 'a faster disk'}"
    )
    return report


def measure_slow_disk(place: Place) -> Report:
    """Compare agentkit with the floor where each commit takes 4 ms."""
    pairs = (("agentkit-slow", "floor-slow"),)
    figures = _rounds(place, pairs, (), [])
    rows = _rows(figures, *pairs[0], is_slow=True, suffix="4 ms a sync", judged=True)
    title = "Jobs pushed a second, 4 ms a sync"
    note = (
        "4 ms a sync: SQLite's own sync is off on both sides, and the thread that writes, agentkit's and the floor's, "
        "sleeps 4 ms before each commit"
    )
    return Report(rows=rows, tables=[_table(title, figures, _columns(pairs))], notes=[note], raw=_raw(figures))


def _columns(pairs: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(who, method) for kit, floor in pairs for who, method in ((floor, "push"), (kit, "push"), (kit, "remind"))]


def _rounds(place: Place, pairs: tuple[tuple[str, str], ...], peers: tuple[str, ...], syncs: list[float]) -> Figures:
    """Measure every candidate once a round, and how long the disk takes to sync meanwhile."""
    figures: Figures = {}
    for _ in range(place.scale.repeat):
        for shape, callers, agents, *_ in _SHAPES:
            syncs.append(sync_ms(place.root))
            candidates = _columns(pairs)
            if agents == 1:  # to a peer the two shapes with 100 callers are one
                candidates += [(peer, "push") for peer in peers]
            for who, method in candidates:
                rate = _rate(place, who, callers=callers, agents=agents, method=method)
                figures.setdefault((shape, who, method), []).append(rate)
    return figures


def _rate(place: Place, who: str, *, callers: int, agents: int, method: str) -> float:
    scale = place.scale
    most = scale.sequential_jobs if callers == 1 else scale.concurrent_jobs
    load = Load(callers, agents, method, scale.budget, most)
    with place.folder() as folder:
        count, seconds = run_fresh("benchmarks.peers.verbs:enqueue", folder, peer=who, load=load)
    return float(count / seconds)


def _rows(figures: Figures, kit: str, floor: str, *, is_slow: bool, suffix: str, judged: bool) -> list[Row]:
    rows = []
    for method, name in _METHODS.items():
        for shape, _, _, fast_share, slow_share in _SHAPES:
            share = slow_share if is_slow else fast_share
            rates = spread(figures[shape, kit, method])
            ratio = ratios(rates.values, figures[shape, floor, "push"])
            rows.append(
                Row(
                    what=f"{name}, {shape} ({suffix})",
                    target=f"≥ {share} × floor" if judged else "",
                    measured=f"{ratio.show()} ×, {short(rates.median)}/s",
                    is_met=ratio.median >= share if judged else None,
                )
            )
    return rows


def _against_best_peer(figures: Figures, peers: tuple[str, ...]) -> list[Row]:
    rows: list[Row] = []
    shape_of_peers = _SHAPES[1][0]
    if not peers:
        return rows
    best = max(peers, key=lambda peer: spread(figures[shape_of_peers, peer, "push"]).median)
    for shape, *_ in _SHAPES[1:]:
        ratio = ratios(figures[shape, "agentkit-full", "push"], figures[shape_of_peers, best, "push"])
        rows.append(
            Row(
                what=f"`jobs.push`, {shape}, against the best peer on SQLite ({best})",
                target=f"≥ {_BEST_PEER:g} ×",
                measured=f"{ratio.show()} ×",
                is_met=ratio.median >= _BEST_PEER,
            )
        )
    return rows


def _table(title: str, figures: Figures, columns: list[tuple[str, str]]) -> Table:
    lines = []
    for who, method in columns:
        cells = [f"{who}, {_METHODS[method]}" if who.startswith("agentkit") else who]
        for shape, *_ in _SHAPES:
            rates = figures.get((shape, who, method))
            cells.append("" if rates is None else Spread(tuple(rates)).show())
        lines.append(cells)
    return Table(title=title, columns=["", *(shape for shape, *_ in _SHAPES)], lines=lines)


def _raw(figures: Figures) -> dict[str, Any]:
    return {" | ".join(key): rates for key, rates in figures.items()}
