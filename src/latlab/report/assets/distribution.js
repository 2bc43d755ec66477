"use strict";
/* How values are distributed: the histogram beside a series, and the CCDF of all cells. */

/** A power of ten in little room: 100, 10k, 1M. */
const shortCount = (count) =>
  count >= 1e6 ? `${count / 1e6}M` : count >= 1e4 ? `${count / 1e3}k` : String(count);

/** How many packets had each value, sideways, on the value axis of the series beside it. */
function histogramChart(element, group, trace, isLast) {
  const height = () => (narrow() ? 150 : 150) + (isLast ? 18 : 0);
  const edges = group.edges;
  const paths = (u) => {
    const path = new Path2D();
    const floor = u.valToPos(0.5, "count", true);
    let drawn = 0;
    trace.counts.forEach((count, bin) => {
      if (!count) return;
      const top = u.valToPos(edges[bin + 1], "x", true);
      const bottom = u.valToPos(edges[bin], "x", true);
      path.rect(floor, top, u.valToPos(count, "count", true) - floor, Math.max(bottom - top, 1));
      drawn += count;
    });
    told(element, drawn);
    return { stroke: null, fill: path, clip: null, flags: 0 };
  };
  const options = (width) => ({
    ...common(width, height()),
    scales: {
      x: { ...valueScale(group), ori: 1 },
      count: { ori: 0, distr: 3, log: 10, auto: false, range: () => [0.5, group.largest * 1.5] },
    },
    axes: [
      axis({
        side: 3,
        splits: valueTicks(group, 6),
        size: () => (narrow() ? 54 : 8),
        values: (u, ticks) => ticks.map(narrow() ? shortNumber : () => ""),
      }),
      axis({
        scale: "count",
        side: 2,
        size: 24,
        splits: (u, _, low, high) => logTicks(1, high, 1),
        values: (u, ticks) => ticks.map(shortCount),
        label: isLast ? `${group.thing}s per bin` : null,
      }),
    ],
    series: [{}, { scale: "count", paths, fill: () => cellColour(trace), points: { show: false } }],
    cursor: { show: false },
  });
  const middles = trace.counts.map((_, bin) => (edges[bin] + edges[bin + 1]) / 2);
  const chart = mounted(element, options, [middles, trace.counts], height);
  group.follow(() => chart.setScale("x", { min: group.value[0], max: group.value[1] }), chart);
}

/** The markers around 0, 0, one unit to each side, as SVG paths. */
const MARKS = {
  o: "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z",
  s: "M-1 -1h2v2h-2z",
  "^": "M0 -1L1 1H-1z",
  D: "M0 -1L1 0L0 1L-1 0z",
  v: "M0 1L1 -1H-1z",
};

/** The share of packets at or above each value, every cell in one chart. */
function ccdfChart(element, group, traces, hidden) {
  const height = () => (narrow() ? 280 : 340);
  const most = Math.max(1, ...traces.map((trace) => trace.n));
  const drawnOf = new Map();
  const stairs = (trace) => (u, index) => {
    const path = new Path2D();
    const marks = new Path2D();
    const mark = MARKS[trace.marker] && new Path2D(MARKS[trace.marker]);
    const x = (value) => u.valToPos(value, "x", true);
    const y = (share) => u.valToPos(share, "y", true);
    const size = 3.5 * devicePixelRatio;
    const every = Math.ceil(trace.ccdfValue.length / 10);
    trace.ccdfValue.forEach((value, at) => {
      const share = trace.ccdfCount[at] / trace.n;
      if (at === 0) path.moveTo(x(value), y(share));
      else path.lineTo(x(trace.ccdfValue[at - 1]), y(share));
      path.lineTo(x(value), y(share));
      if (mark && at % every === 0) marks.addPath(mark, new DOMMatrix([size, 0, 0, size, x(value), y(share)]));
    });
    drawnOf.set(trace.cell, trace.n);
    told(element, traces.reduce((sum, one) => sum + (hidden.has(one.cell) ? 0 : drawnOf.get(one.cell) || 0), 0));
    return { stroke: path, fill: marks, clip: null, flags: 0 };
  };
  const options = (width) => ({
    ...common(width, height()),
    padding: [8, 22, 0, 0], // half of the last tick's label hangs over
    scales: {
      x: valueScale(group),
      y: { distr: 3, log: 10, auto: false, range: () => [0.7 / most, 1.3] },
    },
    axes: [
      axis({ splits: (u, _, low, high) => valueTicks(group, u.width / 90)(u, _, low, high), size: 24, label: `${group.label}, µs` }),
      axis({
        splits: () => logTicks(0.7 / most, 1.3, 1),
        values: (u, ticks) => ticks.map((share) => (share >= 1 ? "1" : `p${shortNumber(100 * (1 - share))}`)),
        size: 62,
      }),
    ],
    series: [
      {},
      ...traces.map((trace) => ({
        show: !hidden.has(trace.cell),
        paths: stairs(trace),
        stroke: () => cellColour(trace),
        fill: () => cellColour(trace),
        width: 1.75,
        dash: trace.dash,
        points: { show: false },
      })),
    ],
    cursor: {
      points: { show: false },
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => group.reset() },
    },
    hooks: {
      setCursor: [
        (u) => {
          const { left, top } = u.cursor;
          element.querySelector("output").textContent =
            left == null || left < 0
              ? ""
              : `${fixed(u.posToVal(left, "x"), 1)} µs, share ${u.posToVal(top, "y").toPrecision(2)}`;
        },
      ],
      setSelect: [
        (u) => {
          const { left, width } = u.select;
          if (width < 3) return;
          group.zoom(group.time, [u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  });
  // Every trace has different values, so uPlot is given only the ends of the axes; the stairs draw themselves.
  const ends = [group.full.value[0], group.full.value[1]];
  const chart = mounted(element, options, [ends, ...traces.map(() => [1, 1])], height);
  group.follow(() => chart.setScale("x", { min: group.value[0], max: group.value[1] }), chart);
  return chart;
}
