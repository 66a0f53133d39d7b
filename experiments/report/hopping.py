"""What a hop costs as states grow, and whether a codec would pay."""

from __future__ import annotations

from typing import List, Optional

from experiments.report import charts
from experiments.report.answer import Answer, Bar, Grid, Results, ratio, shown
from experiments.results import Codec, Sample

#: Bytes that may be written for one that hops.
WRITTEN = 2.2


def answer(results: Results) -> Answer:
    samples, codecs = results.samples("state"), results.codecs("state")
    ticks = {"type": "log", "tickvals": [round(state_mb(each)) for each in samples]}
    plot = charts.lines(
        {"through the database": [(state_mb(each), ratio(each.hopped_mb, each.hop)) for each in samples]},
        "state, MB", "MB a second of a hop", x_axis=ticks,
    )  # fmt: skip
    largest = max(samples, key=state_mb, default=None)
    return Answer(
        findings=[*_finding(largest), *(f"{verdict(each)}" for each in codecs)],
        plots={"state": plot} if samples else {},
        captions={"state": "A hop is the state written after a visit and read before the next"},
        tables=[_table(samples), _codec_table(codecs)] if codecs else [_table(samples)],
        ours=_ours(samples),
        bars=[Bar("bytes written to disk per byte hopped", written(largest) if largest else None, WRITTEN, "at most",
                  f"states of {state_mb(largest):.0f} MB" if largest else "", 2)],
    )  # fmt: skip


def state_mb(sample: Sample) -> float:
    return (sample.hopped_mb or 0.0) / max(sample.hops, 1)


def written(sample: Sample) -> Optional[float]:
    """Per byte hopped. The outputs, which hold every state once more, are of the run and not of its hops."""
    if sample.disk_written_mb is None:
        return None
    outputs = 3 * sample.configs * state_mb(sample)  # through a temporary file and the log to their place
    return ratio(max(sample.disk_written_mb - outputs, 0.0), sample.hopped_mb)


def saved(codec: Codec) -> float:
    """What a MB costs less by compression [s]; negative when it costs more."""
    plain = 1.0 / codec.hop_mb_s if codec.hop_mb_s else 0.0
    return plain * (1.0 - 1.0 / codec.ratio) - 1.0 / codec.in_mb_s - 1.0 / codec.out_mb_s


def verdict(codec: Codec) -> str:
    pays = "pays" if saved(codec) > 0 else "does not pay"
    return (
        f"{codec.codec} after a byte shuffle makes a trained state {codec.ratio:.2f} times smaller, at"
        f" {codec.in_mb_s:.0f} MB/s in and {codec.out_mb_s:.0f} MB/s out,"
        f" beside a hop of {codec.hop_mb_s:.0f} MB/s: it {pays} here."
    )


def _finding(largest: Optional[Sample]) -> List[str]:
    if largest is None or not largest.hop:
        return []
    return [
        f"A state of {state_mb(largest):.0f} MB hops at {(largest.hopped_mb or 0.0) / largest.hop:.0f} MB/s;"
        f" {shown(written(largest))} bytes are written for each byte that hops."
    ]


def _ours(samples: List[Sample]) -> dict[str, str]:
    epochs = [f"{(each.hop or 0.0) / each.workers / each.epochs:.2f}" for each in samples]
    sizes = ", ".join(f"{state_mb(each):.0f}" for each in samples)
    return {
        "seconds": f"{', '.join(epochs)} for {sizes} MB" if samples else "–",
        "written": ", ".join(f"{shown(written(each))} ({state_mb(each):.0f} MB)" for each in samples) or "–",
    }


def _table(samples: List[Sample]) -> Grid:
    heads = ("state MB", "hops", "over k p S", "hopped MB", "hop s", "hop MB/s", "written MB", "per byte", "wall s")
    cells = [
        [shown(state_mb(each), 1), f"{each.hops:,}", shown(each.hops / (each.epochs * each.segments * each.configs)),
         shown(each.hopped_mb, 0), shown(each.hop), shown(ratio(each.hopped_mb, each.hop), 0),
         shown(each.disk_written_mb, 0), shown(written(each)), shown(each.seconds, 1)]
        for each in samples
    ]  # fmt: skip
    return Grid(heads, cells)


def _codec_table(codecs: List[Codec]) -> Grid:
    heads = ("codec", "state MB", "times smaller", "in MB/s", "out MB/s", "hop MB/s", "saved s per 100 MB")
    cells = [
        [each.codec, shown(each.state_mb, 1), shown(each.ratio), shown(each.in_mb_s, 0), shown(each.out_mb_s, 0),
         shown(each.hop_mb_s, 0), shown(100 * saved(each))]
        for each in codecs
    ]  # fmt: skip
    return Grid(heads, cells, "Byte shuffle and a codec")
