"use strict";
/* The page: which metric is shown, its charts, their common zoom. */

const views = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;

/** What the charts of one metric of one stream share: the visible ranges and who follows them. */
function newGroup(view) {
  const full = { time: padded(view.span.map((at) => at / 1e9)), value: [view.axis.low / 1000, view.axis.high / 1000] };
  const followers = [];
  const charts = [];
  const group = {
    label: view.label,
    axis: { kind: view.axis.kind, linear: view.axis.linear / 1000 },
    edges: view.edges.map((edge) => edge / 1000),
    largest: 1,
    full,
    time: full.time,
    value: full.value,
    charts,
    follow(move, chart) {
      followers.push(move);
      charts.push(chart);
    },
    zoom(time, value) {
      group.time = within(time, full.time);
      group.value = within(value, full.value);
      followers.forEach((move) => move());
    },
    reset: () => group.zoom(full.time, full.value),
    /** Zooms time around its middle by a factor, or moves it by a share of what is visible. */
    shift(factor, share) {
      const middle = (group.time[0] + group.time[1]) / 2 + share * (group.time[1] - group.time[0]);
      const half = ((group.time[1] - group.time[0]) / 2) * factor;
      const width = Math.min(2 * half, full.time[1] - full.time[0]);
      const low = Math.min(Math.max(middle - half, full.time[0]), full.time[1] - width);
      group.zoom([low, low + width], group.value);
    },
  };
  return group;
}

const padded = ([low, high]) => [low - (high - low) * 0.005 - 1e-9, high + (high - low) * 0.005 + 1e-9];
const within = ([low, high], [least, most]) => [Math.max(low, least), Math.min(high, most)];

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function chartElement(kind, view, cell, title, figures) {
  const caption = made("figcaption", {}, made("strong", {}, title), made("span", { class: "figures" }, figures), made("output"));
  return made(
    "figure",
    {
      class: `chart ${kind}`,
      "data-chart": kind,
      "data-metric": view.metric,
      "data-stream": view.stream,
      "data-cell": cell,
      role: "img",
      "aria-label": `${kind} of ${view.metric} of ${view.stream}, ${title}: ${figures}`,
    },
    caption,
    made("div", { class: "plot" }),
  );
}

function toolbar(group) {
  const actions = [
    ["Reset zoom", "Reset zoom", () => group.reset()],
    ["+", "Zoom in", () => group.shift(0.5, 0)],
    ["−", "Zoom out", () => group.shift(2, 0)],
    ["←", "Earlier", () => group.shift(1, -0.5)],
    ["→", "Later", () => group.shift(1, 0.5)],
  ];
  const buttons = actions.map(([text, name, act]) => {
    const button = made("button", { type: "button", "aria-label": name, title: name }, text);
    button.addEventListener("click", act);
    return button;
  });
  return made("div", { class: "toolbar", role: "group", "aria-label": "Zoom" }, ...buttons);
}

/** A line as the CCDF draws it; grey where lines of any colour are meant. */
function swatch({ colour, dash, marker }) {
  const drawn = (tag, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const line = drawn("path", { d: "M0 5H40", "stroke-dasharray": dash.join(" ") });
  const mark = MARKS[marker] ? [drawn("path", { d: MARKS[marker], transform: "translate(20 5) scale(3.5)" })] : [];
  const tone = colour === null ? "any" : `line-${colour}`;
  return drawn("svg", { class: `swatch ${tone}`, width: 40, height: 10, "aria-hidden": "true" }, line, ...mark);
}

/** The legend of the CCDF: what colour, dash and marker say, a button a value that shows or hides all lines with it. */
function legend(keys, traces, hidden, chart) {
  const off = new Set();
  const redraw = () => {
    traces.forEach((trace, number) => {
      const show = ![...off].some((entry) => entry.cells.includes(trace.cell));
      if (show === !hidden.has(trace.cell)) return;
      if (show) hidden.delete(trace.cell);
      else hidden.add(trace.cell);
      chart.setSeries(number + 1, { show });
    });
    chart.redraw(true);
  };
  const rows = keys.map((key) => {
    const buttons = key.entries.map((entry) => {
      const button = made("button", { type: "button", "aria-pressed": "true" }, swatch(entry), entry.text);
      button.addEventListener("click", () => {
        if (!off.delete(entry)) off.add(entry);
        button.setAttribute("aria-pressed", String(!off.has(entry)));
        redraw();
      });
      return button;
    });
    const name = key.heading || "cell";
    return made("div", { role: "group", "aria-label": `Shown by ${name}` }, made("span", { class: "quiet" }, name), ...buttons);
  });
  return made("div", { class: "legend" }, ...rows);
}

async function drawView(view, place) {
  const group = newGroup(view);
  const traces = await Promise.all(view.traces.map((trace) => decodedTrace(trace)));
  group.largest = Math.max(1, ...traces.flatMap((trace) => [...trace.counts]));
  const coarse = traces.some((trace) => trace.count);
  const note = coarse
    ? "This page would be too large with every packet of this metric: series show min, max and count in fixed bins. The packets themselves are in packets.parquet."
    : "Zoomed out, each column spans the smallest to the largest value in it; zoomed in, each dot is a packet.";
  place.replaceChildren(
    made("p", { class: "axes" }, made("b", {}, `${view.label}, µs`), `${view.uncertainty ? ` ± ${view.uncertainty}` : ""}. ${note} Drag to zoom, all cells together; double-click resets. `, made("span", { class: "lost-key" }, "▼"), " lost packet."),
    toolbar(group),
  );
  const rows = made("div", { class: "rows" });
  place.append(rows);
  traces.forEach((trace, number) => {
    const last = number === traces.length - 1;
    const series = chartElement("series", view, trace.cell, trace.title, trace.figures);
    const histogram = chartElement("histogram", view, trace.cell, "Histogram", "log count");
    rows.append(series, histogram);
    seriesChart(series, group, trace, last);
    histogramChart(histogram, group, trace, last);
  });
  const ccdf = chartElement("ccdf", view, "all", "Share of packets at or above a value (CCDF)", "all cells, log scale");
  place.append(ccdf);
  const hidden = new Set();
  ccdf.append(legend(view.legend, traces, hidden, ccdfChart(ccdf, group, traces, hidden)));
  place.onkeydown = (event) => {
    const act = { "+": [0.5, 0], "-": [2, 0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25] }[event.key];
    if (event.key === "0" || event.key === "Escape") group.reset();
    else if (act && !event.ctrlKey && !event.metaKey && !event.altKey) group.shift(...act);
    else return;
    event.preventDefault();
  };
  return group;
}

let groups = [];

async function showMetric(metric) {
  document.body.dataset.ready = "false";
  groups.flatMap((group) => group.charts).forEach((chart) => chart.destroy());
  for (const table of document.querySelectorAll("[data-for-metric]")) table.hidden = table.dataset.forMetric !== metric;
  const drawn = [...document.querySelectorAll(".charts")].map((place) => {
    const view = views.find((one) => one.metric === metric && one.stream === place.dataset.stream);
    if (view) return drawView(view, place);
    place.replaceChildren(made("p", {}, `No cell of this stream has the timestamps of ${metric}.`));
    return null;
  });
  try {
    groups = (await Promise.all(drawn)).filter(Boolean);
    // uPlot draws in a microtask of its own; a task later all ink is on the page.
    setTimeout(() => (document.body.dataset.ready = "true"), 0);
  } catch (error) {
    document.body.dataset.ready = "failed";
    document.getElementById("failure").textContent = `The charts cannot be drawn in this browser: ${error.message}`;
  }
}

const redrawAll = () => groups.flatMap((group) => group.charts).forEach((chart) => chart.redraw(false, true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
addEventListener("beforeprint", () => {
  root.dataset.theme = "light";
  redrawAll();
});
addEventListener("afterprint", () => {
  delete root.dataset.theme;
  redrawAll();
});

const chosen = (name) => document.querySelector(`input[name="metric"][value="${CSS.escape(name)}"]`);
for (const input of document.querySelectorAll('input[name="metric"]'))
  input.addEventListener("change", () => {
    history.replaceState(null, "", `#metric-${input.value}`);
    showMetric(input.value);
  });
const asked = chosen(decodeURIComponent(location.hash.replace(/^#metric-/, "")));
if (asked) asked.checked = true;
const first = document.querySelector('input[name="metric"]:checked');
if (first) showMetric(first.value);
else document.body.dataset.ready = "true";
