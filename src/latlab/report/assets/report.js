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
    thing: view.thing,
    axis: { kind: view.axis.kind, linear: view.axis.linear / 1000, ticks: view.axis.ticks.map((ns) => ns / 1000) },
    edges: view.edges.map((edge) => edge / 1000),
    largest: Math.max(1, view.largest),
    hidden: new Set(),
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

/** An element of SVG. */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function chartElement(kind, view, cell, title, figures, more = "") {
  const caption = made("figcaption", {}, made("strong", {}, title), made("span", { class: "figures" }, figures), made("output"));
  return made(
    "figure",
    {
      class: `chart ${kind}`,
      "data-chart": kind,
      "data-metric": view.metric,
      "data-stream": view.stream,
      "data-cell": cell,
    },
    caption,
    made("div", {
      class: "plot",
      role: "img",
      "aria-label": `${kind} of ${view.metric} of ${view.stream}, ${title}: ${figures}${more}`,
    }),
  );
}

function toolbar(group, steps) {
  const actions = [
    ["Reset zoom", "Reset zoom", () => resetAll(group, steps)],
    ["+", "Zoom in", () => group.shift(0.5, 0)],
    ["−", "Zoom out", () => group.shift(2, 0)],
    ["←", "Earlier", () => group.shift(1, -0.5)],
    ["→", "Later", () => group.shift(1, 0.5)],
    ...(steps.any ? [["Previous mark", "Previous mark: to the previous anomaly", () => steps.step(-1)], ["Next mark", "Next mark: to the next anomaly", () => steps.step(1)]] : []),
  ];
  const buttons = actions.map(([text, name, act]) => {
    const button = made("button", { type: "button", "aria-label": name, title: name }, text);
    button.addEventListener("click", act);
    return button;
  });
  return made("div", { class: "toolbar", role: "group", "aria-label": "Zoom" }, ...buttons);
}

function resetAll(group, steps) {
  steps.forget();
  group.reset();
}

/** A line as the CCDF draws it; grey where lines of any colour are meant. */
function swatch({ colour, dash, marker }) {
  const line = svg("path", { d: "M0 5H40", "stroke-dasharray": dash.join(" ") });
  const mark = MARKS[marker] ? [svg("path", { d: MARKS[marker], transform: "translate(20 5) scale(3.5)" })] : [];
  const tone = colour === null ? "any" : `line-${colour}`;
  return svg("svg", { class: `swatch ${tone}`, width: 40, height: 10, "aria-hidden": "true" }, line, ...mark);
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

/** Charts are drawn as they come near the window, and the others whenever nothing else is to be done. */
function newQueue() {
  const waiting = new Map();
  const drawn = async (element) => {
    const draw = waiting.get(element);
    waiting.delete(element);
    near.unobserve(element);
    if (draw) await draw();
  };
  const near = new IntersectionObserver(
    (entries) => entries.filter((one) => one.isIntersecting).forEach((one) => drawn(one.target).catch(failed)),
    { rootMargin: "25%" },
  );
  return {
    add(element, draw) {
      waiting.set(element, draw);
      near.observe(element);
    },
    /** Those that are in the window now. */
    async visible() {
      const seen = [...waiting.keys()].filter((one) => one.getBoundingClientRect().top < innerHeight);
      await Promise.all(seen.map(drawn));
    },
    async all() {
      while (waiting.size) {
        const until = performance.now() + 40;
        for (const element of [...waiting.keys()]) {
          await drawn(element);
          if (performance.now() > until) break;
        }
        await new Promise((next) => setTimeout(next));
      }
    },
    stop() {
      near.disconnect();
      waiting.clear();
    },
  };
}

function drawView(view, place, queue) {
  const group = newGroup(view);
  const coarse = view.traces.some((trace) => trace.bins);
  const note = coarse
    ? `This page would be too large with every ${view.thing} of this metric: series show min, max and count in fixed bins. The ${view.thing}s themselves are in packets.parquet.`
    : `Zoomed out, each column spans the smallest to the largest value in it; zoomed in, each dot is one ${view.thing}.`;
  const marks = view.traces.map((trace) => marksOf(view.stream, trace.cell, view.metric));
  const steps = markSteps(view.traces, marks, group, group.hidden);
  place.replaceChildren(
    made("p", { class: "axes" }, made("b", {}, `${view.label}, µs${view.axis.told ? `, ${view.axis.told}` : ""}`), `${view.uncertainty ? ` ± ${view.uncertainty}` : ""}. ${note} Drag to zoom, all cells together; double-click resets. `, made("span", { class: "lost-key" }, "▼"), ` lost ${view.thing}.`),
    toolbar(group, steps),
    steps.told,
  );
  const key = marksLegend(marks, group.hidden, () => group.charts.forEach((chart) => chart.redraw(false, true)));
  if (key) place.append(key);
  const decoded = new Map();
  const traceOf = (trace) => decoded.get(trace) ?? decoded.set(trace, decodedTrace(view.stream, trace)).get(trace);
  const rows = made("div", { class: "rows" });
  place.append(rows);
  view.traces.forEach((trace, number) => {
    const last = number === view.traces.length - 1;
    const series = chartElement("series", view, trace.cell, trace.title, trace.figures, marksInWords(marks[number]));
    const histogram = chartElement("histogram", view, trace.cell, "Histogram", "log count");
    rows.append(series, histogram);
    queue.add(series, async () => seriesChart(series, group, await traceOf(trace), marks[number], last));
    queue.add(histogram, async () => histogramChart(histogram, group, await traceOf(trace), last));
  });
  const ccdf = chartElement("ccdf", view, "all", `Share of ${view.thing}s at or above a value (CCDF)`, "all cells, log scale");
  place.append(ccdf);
  queue.add(ccdf, async () => {
    const hidden = new Set();
    const traces = await Promise.all(view.traces.map(traceOf));
    ccdf.append(legend(view.legend, traces, hidden, ccdfChart(ccdf, group, traces, hidden)));
  });
  place.onkeydown = (event) => {
    const act = { "+": [0.5, 0], "-": [2, 0], ArrowLeft: [1, -0.25], ArrowRight: [1, 0.25] }[event.key];
    if (event.key === "0" || event.key === "Escape") resetAll(group, steps);
    else if ("np".includes(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) steps.step(event.key === "n" ? 1 : -1);
    else if (act && !event.ctrlKey && !event.metaKey && !event.altKey) group.shift(...act);
    else return;
    event.preventDefault();
  };
  return group;
}

let groups = [];
let queue = newQueue();

function failed(error) {
  document.body.dataset.ready = "failed";
  document.getElementById("failure").textContent = `The charts cannot be drawn in this browser: ${error.message}`;
}

/** data-interactive: what is in the window is drawn, and answers; data-ready: so is everything else. */
async function showMetric(metric) {
  document.body.dataset.ready = document.body.dataset.interactive = "false";
  queue.stop();
  groups.flatMap((group) => group.charts).forEach((chart) => chart.destroy());
  for (const table of document.querySelectorAll("[data-for-metric]")) table.hidden = table.dataset.forMetric !== metric;
  const own = (queue = newQueue());
  groups = [...document.querySelectorAll(".charts")].flatMap((place) => {
    const view = views.find((one) => one.metric === metric && one.stream === place.dataset.stream);
    if (view) return [drawView(view, place, own)];
    place.replaceChildren(made("p", {}, `No cell of this stream has the timestamps of ${metric}.`));
    return [];
  });
  // uPlot draws in a separate microtask; a task later all ink is on the page.
  const inked = () => new Promise((next) => setTimeout(next));
  try {
    // Charts of metrics that are not shown at first are packed until they are.
    for (const one of document.querySelectorAll("[data-for-metric]:not([hidden]) .drawn > .wide")) await unpack(one).catch(() => {});
    await own.visible();
    await inked();
    document.body.dataset.interactive = "true";
    await own.all();
    makeReachable();
    await inked();
    if (own === queue) document.body.dataset.ready = "true";
  } catch (error) {
    failed(error);
  }
}

/** Boxes that scroll are reached by keyboard as well, under their table's name, while there is something to scroll. */
function makeReachable() {
  const boxes = [...document.querySelectorAll(".scroll, pre")].map((box) => [
    box,
    box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight + 1,
  ]);
  for (const [box, scrolls] of boxes) {
    if (scrolls === box.hasAttribute("tabindex")) continue;
    if (!scrolls) for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    else {
      const name = box.querySelector("caption") ?? box.closest("details")?.querySelector("summary");
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${name ? name.textContent : "Text"}: scrolls`);
    }
  }
}
addEventListener("resize", makeReachable);

let parts = null;
/** Puts what is packed into the details that were opened; where that fails, what stands there says where else it is. */
async function unpack(details) {
  const places = [...details.querySelectorAll("[data-part]")];
  if (!places.length) return;
  parts ??= inflated(document.getElementById("parts").textContent).then((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
  const found = await parts;
  for (const place of places) {
    place.innerHTML = found[place.dataset.part]; // the page's own markup, in which all that came from the run is escaped
    place.removeAttribute("data-part");
  }
}
/** In a narrow window charts are laid out for it. */
const narrowWindow = matchMedia("(max-width: 50rem)");
const fitDrawn = async () => {
  if (narrowWindow.matches) for (const one of document.querySelectorAll(".drawn > .narrow")) await unpack(one);
};
narrowWindow.addEventListener("change", () => fitDrawn().catch(() => {}));
addEventListener(
  "toggle",
  (event) => {
    if (event.target.open) unpack(event.target).catch(() => {}).then(makeReachable);
    else makeReachable();
  },
  true,
);

const redrawAll = () => groups.flatMap((group) => group.charts).forEach((chart) => chart.redraw(false, true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
/** On paper nothing can be opened: all is open there but what is for reference only; as it was again afterwards. */
function openForPaper() {
  for (const one of document.querySelectorAll("details:not([open], .screen)")) {
    one.dataset.closed = "";
    one.open = true;
  }
}
function closeAgain() {
  for (const one of document.querySelectorAll("details[data-closed]")) {
    delete one.dataset.closed;
    one.open = false;
  }
}
/** Charts as wide as the page is now: no event reports a size that exists only while printing. */
const fitAll = () => groups.flatMap((group) => group.charts).forEach((chart) => chart.fit());
addEventListener("beforeprint", () => {
  root.dataset.theme = "light";
  root.dataset.paper = "";
  openForPaper();
  fitAll();
  redrawAll();
});
addEventListener("afterprint", () => {
  delete root.dataset.theme;
  delete root.dataset.paper;
  closeAgain();
  fitAll();
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
fitDrawn()
  .catch(() => {})
  .then(() => {
    if (first) return showMetric(first.value);
    makeReachable();
    document.body.dataset.ready = document.body.dataset.interactive = "true";
  });
