"use strict";
/* What all charts share: axes, ticks, colours, size. Axes, zoom box and cursor are uPlot's. */

const narrow = () => window.innerWidth < 700;
const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const cellColour = (trace) => cssColour(`--cell-${trace.colour}`);
const minus = (text) => text.replace("-", "−");
const shortNumber = (value) => minus(String(Number(value.toPrecision(6))));
const fixed = (value, digits) => minus(value.toFixed(digits));

/** Round numbers between low and high, about as many as asked for. */
function linearTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const ticks = [];
  for (let number = Math.ceil(low / step); number * step <= high; number++) ticks.push(number * step);
  return ticks;
}

/** 1, 2, 5 or 1, 3 or 1 of each decade, as the decades leave room; round numbers within one decade. */
function logTicks(low, high, wanted) {
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const factor of factors) {
        const tick = factor * 10 ** power;
        if (tick >= low && tick <= high) ticks.push(tick);
      }
    if (ticks.length < 3 && factors.length === 3) return linearTicks(low, high, wanted);
    if (ticks.length <= wanted || factors.length === 1) return ticks;
  }
}

/** Those that were chosen for the whole axis, as long as a few of them are visible. */
function asinhTicks(low, high, whole) {
  const inside = whole.filter((tick) => tick >= low && tick <= high);
  return inside.length < 3 ? linearTicks(low, high, 4) : inside;
}

const DISTRIBUTION = { linear: 1, log: 3, asinh: 4 };

function valueScale(group) {
  const { kind, linear } = group.axis;
  return { distr: DISTRIBUTION[kind], log: 10, asinh: linear || 1, auto: false, time: false, range: () => group.value };
}

function valueTicks(group, wanted) {
  return (u, _, low, high) => {
    const { kind, ticks } = group.axis;
    if (kind === "log") return logTicks(low, high, wanted);
    return kind === "asinh" ? asinhTicks(low, high, ticks) : linearTicks(low, high, wanted);
  };
}

/** An axis in the page's colours and type. */
function axis(more) {
  return {
    stroke: () => cssColour("--quiet"),
    grid: { stroke: () => cssColour("--grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
    labelSize: 18,
    gap: 5,
    values: (u, ticks) => ticks.map(shortNumber),
    filter: (u, ticks) => ticks,
    ...more,
  };
}

const common = (width, height) => ({
  width,
  height,
  legend: { show: false },
  padding: [8, 14, 0, 0],
});

/** Sets what a chart has really drawn, for people who check and for tests. */
const told = (element, points) => element.setAttribute("data-points", String(points));

/** A uPlot in the element's .plot, as wide as that is from now on. */
function mounted(element, options, data, height) {
  const plot = element.querySelector(".plot");
  const chart = new uPlot(options(Math.max(plot.clientWidth, 120)), data, plot);
  chart.fit = () => {
    const width = Math.max(plot.clientWidth, 120);
    if (width !== chart.width) chart.setSize({ width, height: height() });
  };
  new ResizeObserver(chart.fit).observe(plot);
  return chart;
}
