"use strict";
/* A trace over time. */

const MARK_PX = 5;

/** A trace over time. Dense: a bar a pixel from min to max, so that no extreme is lost; sparse: every packet a dot. */
function seriesChart(element, group, trace, marks, isLast) {
  const lane = marks ? LANE_PX : 0;
  const height = () => (narrow() ? 170 : 150) + (isLast ? 18 : 0) + lane;
  const columns = { count: null, low: null, high: null };

  const paths = (u, index, first, last) => {
    const path = new Path2D();
    const [from, to] = group.time;
    const { left, width } = u.bbox;
    const perPixel = width / (to - from);
    let seen = 0;
    let drawn = 0;
    for (let at = first; at <= last; at++) if (trace.time[at] >= from && trace.time[at] <= to) {
      seen++;
      drawn += trace.count ? trace.count[at] : 1;
    }
    const y = (value) => u.valToPos(value, "y", true);
    if (trace.count || seen > 1.5 * width) {
      const size = Math.ceil(width) + 1;
      columns.count = new Float64Array(size);
      columns.low = new Float64Array(size).fill(Infinity);
      columns.high = new Float64Array(size).fill(-Infinity);
      for (let at = first; at <= last; at++) {
        if (trace.time[at] < from || trace.time[at] > to) continue;
        const column = Math.floor((trace.time[at] - from) * perPixel);
        columns.count[column] += trace.count ? trace.count[at] : 1;
        columns.low[column] = Math.min(columns.low[column], trace.low[at]);
        columns.high[column] = Math.max(columns.high[column], trace.high[at]);
      }
      const thick = Math.max(devicePixelRatio, perPixel * trace.binLength);
      for (let column = 0; column < size; column++) {
        if (!columns.count[column]) continue;
        const top = y(columns.high[column]) - devicePixelRatio;
        path.rect(left + column, top, thick, y(columns.low[column]) - top + devicePixelRatio);
      }
    } else {
      columns.count = null;
      const radius = (seen < width / 10 ? 2.6 : 1.6) * devicePixelRatio;
      for (let at = first; at <= last; at++) {
        const x = u.valToPos(trace.time[at], "x", true);
        path.moveTo(x + radius, y(trace.low[at]));
        path.arc(x, y(trace.low[at]), radius, 0, 2 * Math.PI);
      }
    }
    told(element, drawn);
    return { stroke: null, fill: path, clip: null, flags: 0 };
  };

  const drawLost = (u) => {
    const { ctx, bbox } = u;
    const size = MARK_PX * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = cssColour("--lost");
    let shown = 0;
    for (const time of trace.lostAt) {
      if (time < group.time[0] || time > group.time[1]) continue;
      const x = u.valToPos(time, "x", true);
      ctx.beginPath();
      ctx.moveTo(x - size, bbox.top);
      ctx.lineTo(x + size, bbox.top);
      ctx.lineTo(x, bbox.top + size * 1.5);
      ctx.fill();
      shown++;
    }
    ctx.restore();
    element.setAttribute("data-lost", String(shown));
  };

  const readout = element.querySelector("output");
  const tip = markTip(element);
  const read = (u) => {
    const { left } = u.cursor;
    tip(u, toldAt(u, marks, group.hidden, left));
    if (left == null || left < 0) return void (readout.textContent = "");
    if (columns.count) {
      const column = Math.floor(left * devicePixelRatio);
      const time = `${shortNumber(u.posToVal(left, "x"))} s`;
      readout.textContent = columns.count[column]
        ? `${time}: ${fixed(columns.low[column], 1)} to ${fixed(columns.high[column], 1)} µs, n ${columns.count[column]}`
        : `${time}: no ${group.thing}`;
    } else if (u.cursor.idx != null) {
      const at = u.cursor.idx;
      readout.textContent = `${trace.time[at].toFixed(6)} s: ${fixed(trace.low[at], 3)} µs, sequence ${trace.sequence[at]}`;
    }
  };

  const options = (width) => ({
    ...common(width, height()),
    padding: [8 + lane, 8, 0, 0],
    scales: { x: { time: false, auto: false, range: () => group.time }, y: valueScale(group) },
    axes: [
      axis({
        splits: (u, _, low, high) => linearTicks(low, high, Math.max(4, u.width / 110)),
        size: 24,
        label: isLast ? `${group.thing === "instant" ? "due" : "launch time"} after the cell's start, s` : null,
      }),
      axis({ splits: valueTicks(group, 6), size: 54 }),
    ],
    series: [{}, { paths, fill: () => cellColour(trace), points: { show: false } }],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: true, y: true, uni: 24, setScale: false },
      bind: { dblclick: () => () => group.reset() },
    },
    hooks: {
      drawAxes: [(u) => drawStretches(u, element, marks)],
      draw: [drawLost, (u) => drawMarks(u, element, marks, group.hidden)],
      setCursor: [read],
      setSelect: [
        (u) => {
          const { left, top, width, height: tall } = u.select;
          if (width < 3 && tall < 3) return;
          const full = tall >= u.over.clientHeight - 1;
          const wide = width >= u.over.clientWidth - 1;
          group.zoom(
            wide ? group.time : [u.posToVal(left, "x"), u.posToVal(left + width, "x")],
            full ? group.value : [u.posToVal(top + tall, "y"), u.posToVal(top, "y")],
          );
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  });
  const chart = mounted(element, options, [trace.time, trace.high], height);
  group.follow(() => chart.batch(() => {
    chart.setScale("x", { min: group.time[0], max: group.time[1] });
    chart.setScale("y", { min: group.value[0], max: group.value[1] });
  }), chart);
}

