"use strict";
/* Anomalies in a trace over time: a letter in a shape for each class, and the stretches that windows cut or keep. */

const LANE_PX = 18;
const GLYPH_PX = 6.5;
const NEAR_PX = 7;
const TOLD_MOST = 4;

const marked = JSON.parse(document.getElementById("marks").textContent);
const CLASS_NAMES = Object.keys(marked.classes);

/** Whether packets that were held there are late in a metric, as far as both are known. */
function isSeenIn(metric, name, where) {
  const passed = marked.places[metric];
  const places = where ? [where] : marked.classes[name].places;
  return !passed || !places || places.some((one) => passed.includes(one));
}

/** What is marked in one cell's series of a metric, times in s, episodes in order of time; null where nothing is. */
function marksOf(stream, cell, metric) {
  const found = marked.streams[stream]?.[cell];
  if (!found) return null;
  const episodes = CLASS_NAMES.filter((name) => found.episodes[name]).flatMap((name) => {
    const { number, from, length, text, where } = found.episodes[name];
    return number.map((one, at) => ({
      name,
      seen: isSeenIn(metric, name, where[one]),
      from: from[at] / 1e9,
      to: (from[at] + length[at]) / 1e9,
      text: text[one] ?? `${marked.classes[name].title}, episode ${one} of this stream`,
    }));
  });
  const inSeconds = ({ from, to, text }) => ({ from: from / 1e9, to: to / 1e9, text });
  const seen = episodes.filter((one) => one.seen);
  const counts = Object.entries(found.episodes)
    .map(([name, { of, number }]) => {
      const shown = seen.filter((one) => one.name === name).length;
      return [name, { of: isSeenIn(metric, name) ? of - (number.length - shown) : 0, shown }];
    })
    .filter(([, { of }]) => of > 0);
  return {
    episodes: seen.sort((one, other) => one.from - other.from),
    counts: Object.fromEntries(counts),
    cuts: found.cuts.map(inSeconds),
    chosen: found.chosen.map(inSeconds),
  };
}

/** How many of what is marked, in words, for those who do not see it. */
function marksInWords(marks) {
  if (!marks) return "";
  const classes = Object.entries(marks.counts).map(([name, { of }]) => `${of} × ${marked.classes[name].title}`);
  const stretches = [[marks.cuts, "cut from the clean windows"], [marks.chosen, "user-defined"]]
    .filter(([list]) => list.length)
    .map(([list, what]) => `${list.length} ${list.length === 1 ? "interval" : "intervals"} ${what}`);
  const said = [...classes, ...stretches].join(", ");
  return said ? `; marked: ${said}` : "";
}

const SHAPES = {
  square: (s) => [[-s, -s], [s, -s], [s, s], [-s, s]],
  diamond: (s) => [[0, -1.25 * s], [1.25 * s, 0], [0, 1.25 * s], [-1.25 * s, 0]],
  hexagon: (s) => [[-0.6 * s, -1.1 * s], [0.6 * s, -1.1 * s], [1.2 * s, 0], [0.6 * s, 1.1 * s], [-0.6 * s, 1.1 * s], [-1.2 * s, 0]],
  circle: (s) => Array.from({ length: 24 }, (_, n) => [1.1 * s * Math.cos((n * Math.PI) / 12), 1.1 * s * Math.sin((n * Math.PI) / 12)]),
};

function drawGlyph(ctx, name, x, y, scale) {
  const { letter, shape } = marked.classes[name];
  const points = SHAPES[shape](GLYPH_PX * scale);
  ctx.beginPath();
  points.forEach(([dx, dy], at) => (at ? ctx.lineTo(x + dx, y + dy) : ctx.moveTo(x + dx, y + dy)));
  ctx.closePath();
  ctx.fillStyle = cssColour("--ink");
  ctx.fill();
  ctx.fillStyle = cssColour("--paper");
  ctx.font = `700 ${10 * scale}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(letter, x, y + 0.5 * scale);
}

/** The same for the legend. */
function glyph(name) {
  const { letter, shape } = marked.classes[name];
  const points = SHAPES[shape](GLYPH_PX).map((point) => point.join(",")).join(" ");
  return svg("svg", { class: "glyph", width: 18, height: 18, viewBox: "-9 -9 18 18", "aria-hidden": "true" },
    svg("polygon", { points }), svg("text", { x: 0, y: 3.6 }, letter));
}

/** Lines from one corner to the other: an interval that is cut is visible without any colour. */
function hatched(ctx) {
  const size = 8 * devicePixelRatio;
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.globalAlpha = 0.1;
  pen.fillStyle = cssColour("--quiet");
  pen.fillRect(0, 0, size, size);
  pen.globalAlpha = 0.35;
  pen.strokeStyle = cssColour("--quiet");
  pen.lineWidth = devicePixelRatio;
  for (const offset of [-size, 0, size]) {
    pen.moveTo(offset, size);
    pen.lineTo(offset + size, 0);
  }
  pen.stroke();
  return ctx.createPattern(tile, "repeat");
}

/** Behind the data: what clean windows cut is hatched; user-defined windows have a bar along the lower edge. */
function drawStretches(u, element, marks) {
  if (!marks) return;
  const { ctx, bbox } = u;
  const within = ({ from, to }) => {
    const x = (at) => Math.min(Math.max(u.valToPos(at, "x", true), bbox.left), bbox.left + bbox.width);
    return [x(from), Math.max(x(to), x(from) + devicePixelRatio)];
  };
  const visible = (list) => list.filter(({ from, to }) => to > u.scales.x.min && from < u.scales.x.max);
  ctx.save();
  ctx.fillStyle = hatched(ctx);
  for (const one of visible(marks.cuts)) {
    const [left, right] = within(one);
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  ctx.fillStyle = cssColour("--link");
  const thick = 3 * devicePixelRatio;
  for (const one of visible(marks.chosen)) {
    const [left, right] = within(one);
    ctx.fillRect(left, bbox.top + bbox.height - thick, right - left, thick);
    for (const edge of [left, right - devicePixelRatio]) ctx.fillRect(edge, bbox.top, devicePixelRatio, bbox.height);
  }
  ctx.restore();
  element.setAttribute("data-cuts", String(visible(marks.cuts).length));
  element.setAttribute("data-chosen", String(visible(marks.chosen).length));
}

/** In a lane over the data: a tick for each episode, or a bar as long as it lasts, and letters where there is room. */
function drawMarks(u, element, marks, hidden) {
  if (!marks) return;
  const { ctx, bbox } = u;
  const scale = devicePixelRatio;
  const [low, high] = [u.scales.x.min, u.scales.x.max];
  const middle = bbox.top - (LANE_PX / 2 + 1) * scale;
  const shown = marks.episodes.filter(({ name, from, to }) => !hidden.has(name) && to > low && from < high);
  const taken = [];
  const place = (at) => Math.min(Math.max(u.valToPos(at, "x", true), bbox.left), bbox.left + bbox.width);
  ctx.save();
  ctx.fillStyle = cssColour("--ink");
  for (const { from, to } of shown) {
    const [left, right] = [place(from), place(to)];
    ctx.fillRect(left - scale / 2, middle, scale, bbox.top + 4 * scale - middle);
    if (right - left > 2 * GLYPH_PX * scale) ctx.fillRect(left, bbox.top - 3 * scale, right - left, 2 * scale);
  }
  // The first of each class before the second of any, and of the rarest first: no class is without a letter because
  // another has many, the first of which may stand where its only one does.
  const seen = {};
  const ranked = shown.map((one) => [(seen[one.name] = (seen[one.name] ?? -1) + 1), one]);
  const order = ranked
    .sort(([rank, one], [other, two]) => rank - other || seen[one.name] - seen[two.name] || CLASS_NAMES.indexOf(one.name) - CLASS_NAMES.indexOf(two.name))
    .map(([, one]) => one);
  const letters = [];
  for (const { name, from } of order) {
    const x = place(from);
    if (taken.some((other) => Math.abs(other - x) < 2.2 * GLYPH_PX * scale)) continue;
    taken.push(x);
    letters.push(marked.classes[name].letter);
    drawGlyph(ctx, name, x, middle, scale);
  }
  ctx.restore();
  element.setAttribute("data-marks", String(shown.length));
  element.setAttribute("data-letters", letters.join(""));
}

/** What there is to say of an instant: episodes within a few pixels of it, then stretches that it lies in. */
function toldAt(u, marks, hidden, left) {
  if (!marks || left == null || left < 0) return [];
  const [from, to] = [u.posToVal(left - NEAR_PX, "x"), u.posToVal(left + NEAR_PX, "x")];
  const at = u.posToVal(left, "x");
  const near = marks.episodes.filter((one) => !hidden.has(one.name) && one.to >= from && one.from <= to);
  const lines = near.map(({ name, text }) => `${marked.classes[name].letter}  ${marked.classes[name].title}: ${text}`);
  const told = new Set(near.map(({ text }) => text));
  for (const one of marks.cuts)
    if (one.from <= at && at < one.to) lines.push(told.has(one.text) ? "cut from the clean windows for this reason" : `cut from the clean windows: ${one.text}`);
  for (const one of marks.chosen) if (one.from <= at && at < one.to) lines.push(one.text);
  const more = lines.length - TOLD_MOST;
  return more > 0 ? [...lines.slice(0, TOLD_MOST), `and ${more} more`] : lines;
}

/** The note that follows the pointer through a series. */
function markTip(element) {
  const tip = made("div", { class: "tip" });
  element.querySelector(".plot").append(tip);
  return (u, lines) => {
    tip.hidden = !lines.length;
    tip.replaceChildren(...lines.map((line) => made("div", {}, line)));
    if (!lines.length) return;
    const room = element.querySelector(".plot").clientWidth;
    const left = u.bbox.left / devicePixelRatio + u.cursor.left + 12;
    tip.style.left = `${Math.max(0, Math.min(left, room - tip.offsetWidth))}px`;
    tip.style.top = `${u.bbox.top / devicePixelRatio + 12}px`;
  };
}

/** The legend of the marks: a button a class that shows or hides it; nothing where nothing is marked. */
function marksLegend(all, hidden, redraw) {
  const found = all.filter(Boolean);
  const buttons = CLASS_NAMES.filter((name) => found.some((marks) => marks.counts[name])).map((name) => {
    const { title, meaning } = marked.classes[name];
    const [of, shown] = ["of", "shown"].map((key) => found.reduce((sum, marks) => sum + (marks.counts[name]?.[key] ?? 0), 0));
    const count = shown < of ? `${shown} of ${of}` : String(of);
    const button = made("button", { type: "button", "aria-pressed": "true", title: meaning }, glyph(name), title, made("span", { class: "quiet" }, count));
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      redraw();
    });
    return button;
  });
  const stretches = [["cuts", "cut from the clean windows"], ["chosen", "user-defined window"]]
    .filter(([kind]) => found.some((marks) => marks[kind].length))
    .map(([kind, what]) => made("span", { class: "stretch-key" }, made("span", { class: `stretch ${kind}`, "aria-hidden": "true" }), what));
  if (!buttons.length && !stretches.length) return null;
  return made("div", { class: "legend marks", role: "group", "aria-label": "Marked anomalies" }, made("div", {}, ...buttons, ...stretches));
}

/** From mark to mark, of all cells by time: the charts zoom to it, and it is said in words. */
function markSteps(traces, all, group, hidden) {
  const told = made("p", { class: "quiet mark-told", role: "status" });
  const every = all.flatMap((marks, number) => (marks ? marks.episodes.map((one) => ({ ...one, cell: traces[number].title })) : []));
  every.sort((one, other) => one.from - other.from);
  let at = -1;
  const step = (by) => {
    const shown = every.filter(({ name }) => !hidden.has(name));
    if (!shown.length) return void (told.textContent = "No anomaly is marked here.");
    at = at < 0 ? (by > 0 ? 0 : shown.length - 1) : (at + by + shown.length) % shown.length;
    const one = shown[at];
    const around = Math.max(one.to - one.from, (group.full.time[1] - group.full.time[0]) / 100);
    group.zoom([one.from - around, one.to + around], group.full.value);
    told.textContent = `${at + 1} of ${shown.length}, ${one.cell}, at ${shortNumber(one.from)} s: ${marked.classes[one.name].title}: ${one.text}`;
  };
  return { told, step, any: every.length > 0, forget: () => { at = -1; told.textContent = ""; } };
}
