"""Numbers of a report, from plain values: who is best, where the time went, how good the schedule was."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from cerebro_db.report.record import PARTS, Config, Epoch, Hop, Record


@dataclass(frozen=True)
class Standing:
    """A config's place on the leaderboard."""

    config: Config
    #: From 1; None without any result.
    rank: Optional[int]
    epochs: int
    #: The last epoch: validation values where the run validates, else training values.
    metric: Optional[float] = None
    loss: Optional[float] = None
    #: Rows trained, over all its hops.
    rows: int = 0


@dataclass(frozen=True)
class Share:
    """Seconds by part ("train" ... "start", and "idle" for a segment)."""

    key: int
    seconds: Dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Schedule:
    """How close the hops came to the shortest possible schedule [s]."""

    makespan: float
    busiest_segment: float
    longest_config: float

    @property
    def lower_bound(self) -> float:
        """No schedule of these hops can be shorter: a segment, and a config, does one hop at a time."""
        return max(self.busiest_segment, self.longest_config)

    @property
    def ratio(self) -> Optional[float]:
        return self.makespan / self.lower_bound if self.lower_bound > 0 else None


def seen_metric(epoch: Epoch) -> Optional[float]:
    return epoch.training_metric if epoch.validation_metric is None else epoch.validation_metric


def seen_loss(epoch: Epoch) -> Optional[float]:
    return epoch.training_loss if epoch.validation_loss is None else epoch.validation_loss


def score(ranking: str, epoch: Epoch) -> float:
    """Smaller is better; infinite where there is no value or it is NaN."""
    value = seen_loss(epoch) if ranking == "loss" else seen_metric(epoch)
    if value is None or not math.isfinite(value):
        return math.inf
    return -value if ranking == "metric_higher" else value


def leaderboard(record: Record) -> List[Standing]:
    """Configs from best to worst by their last epoch, whose weights are kept; equal ones by loss, then key.

    Those without results come last.
    """
    ranking = record.run.ranking
    results: Dict[int, List[Epoch]] = defaultdict(list)
    for epoch in record.epochs:
        results[epoch.mst_key].append(epoch)
    rows: Dict[int, int] = defaultdict(int)
    for hop in record.hops:
        rows[hop.mst_key] += hop.rows
    last = {key: max(epochs, key=lambda epoch: epoch.epoch) for key, epochs in results.items()}

    def order(config: Config) -> Tuple[float, float, int]:
        found = last.get(config.mst_key)
        if found is None:
            return (math.inf, math.inf, config.mst_key)
        return (score(ranking, found), score("loss", found), config.mst_key)

    return [
        _standing(
            config,
            place,
            last.get(config.mst_key),
            len(results[config.mst_key]),
            rows[config.mst_key],
            order(config)[0],
        )
        for place, config in enumerate(sorted(record.configs, key=order), start=1)
    ]


def _standing(
    config: Config, place: int, last: Optional[Epoch], epochs: int, rows: int, value: float
) -> Standing:
    if last is None:
        return Standing(config, None, epochs, rows=rows)
    return Standing(
        config, place if math.isfinite(value) else None, epochs, seen_metric(last), seen_loss(last), rows
    )


def segments(record: Record) -> List[int]:
    """Segments that finished a hop, in order."""
    return sorted({hop.segment_id for hop in record.hops})


def segment_count(record: Record) -> int:
    """Segments of the run, those that have finished no hop yet included."""
    planned = len(record.configs) * record.run.num_iterations
    return max(len(segments(record)), record.run.hops_total // planned if planned else 0)


def time_of_segments(record: Record) -> List[Share]:
    """Per segment, seconds by part and idle; each adds up to the wall time of the run."""
    shares = _summed(record.hops, segments(record), lambda hop: hop.segment_id)
    wall = record.run.seconds
    return [Share(share.key, {**share.seconds, "idle": max(wall - share.total, 0.0)}) for share in shares]


def time_of_configs(record: Record) -> List[Share]:
    """Per config, seconds by part, longest first."""
    keys = sorted({hop.mst_key for hop in record.hops})
    return sorted(
        _summed(record.hops, keys, lambda hop: hop.mst_key), key=lambda share: (-share.total, share.key)
    )


def _summed(hops: Iterable[Hop], keys: List[int], key: Callable[[Hop], int]) -> List[Share]:
    sums = {name: [0.0] * len(PARTS) for name in keys}
    for hop in hops:
        sums[key(hop)] = [total + part for total, part in zip(sums[key(hop)], hop.parts)]
    return [Share(name, dict(zip(PARTS, sums[name]))) for name in keys]


def idle_share(record: Record) -> Optional[float]:
    """Part of segments x wall time that no hop used; None before the first hop."""
    wall = record.run.seconds * segment_count(record)
    if not record.hops or wall <= 0:
        return None
    return max(1.0 - sum(sum(hop.parts) for hop in record.hops) / wall, 0.0)


def schedule(record: Record) -> Schedule:
    """From the first start to the last finish, against the busiest segment and the longest config."""
    by_segment: Dict[int, List[Hop]] = defaultdict(list)
    by_config: Dict[int, float] = defaultdict(float)
    for hop in record.hops:
        by_segment[hop.segment_id].append(hop)
        by_config[hop.mst_key] += hop.seconds
    return Schedule(
        makespan=max((hop.finished for hop in record.hops), default=0.0)
        - min((hop.started for hop in record.hops), default=0.0),
        busiest_segment=max((_covered(hops) for hops in by_segment.values()), default=0.0),
        longest_config=max(by_config.values(), default=0.0),
    )


def _covered(hops: Iterable[Hop]) -> float:
    """Seconds in which at least one of the hops goes on: configs that are trained as one hop at the same time."""
    covered, until = 0.0, -math.inf
    for hop in sorted(hops, key=lambda hop: hop.started):
        covered += max(hop.finished - max(hop.started, until), 0.0)
        until = max(until, hop.finished)
    return covered


def company(record: Record) -> List[Tuple[int, int]]:
    """Of each hop, its number among those that go on at its segment at the same time, and how many they are."""
    visits: List[List[int]] = []
    for place in sorted(range(len(record.hops)), key=lambda p: (record.hops[p].segment_id, record.hops[p].started)):
        if visits and _together(record, visits[-1], place):
            visits[-1].append(place)
        else:
            visits.append([place])
    found: Dict[int, Tuple[int, int]] = {}
    for visit in visits:
        ordered = sorted(visit, key=lambda place: record.hops[place].mst_key)
        found.update({place: (number, len(visit)) for number, place in enumerate(ordered)})
    return [found[place] for place in range(len(record.hops))]


def _together(record: Record, visit: Sequence[int], place: int) -> bool:
    """Whether a hop is of the visit: at its segment, and begun before any of it ended."""
    hop, others = record.hops[place], [record.hops[member] for member in visit]
    return all(hop.segment_id == other.segment_id and hop.started < other.finished for other in others)


def rows_per_second(record: Record) -> Optional[float]:
    """Training rows per second of the whole run."""
    rows = sum(hop.rows for hop in record.hops)
    return rows / record.run.seconds if rows and record.run.seconds > 0 else None


def changed_sessions(record: Record) -> List[int]:
    """Segments whose hops ran in more than one session: the run was resumed, or a session was lost."""
    sessions: Dict[int, set[int]] = defaultdict(set)
    for hop in record.hops:
        sessions[hop.segment_id].add(hop.session_pid)
    return sorted(segment for segment, pids in sessions.items() if len(pids) > 1)
