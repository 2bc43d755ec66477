"use strict";
/* From the page's data to typed arrays. */

/** Bytes of base64 text, inflated (raw DEFLATE). */
async function inflated(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The integers of one packed array: byte planes joined, differences summed. */
async function unpacked({ n, bytes, delta, data }) {
  const planes = await inflated(data);
  if (planes.length !== n * bytes) throw new Error(`expected ${n * bytes} bytes, found ${planes.length}`);
  const word = (at, first) =>
    planes[first * n + at] |
    (planes[(first + 1) * n + at] << 8) |
    (planes[(first + 2) * n + at] << 16) |
    (planes[(first + 3) * n + at] << 24);
  const values = new Float64Array(n);
  let before = 0;
  for (let at = 0; at < n; at++) {
    const value = bytes === 4 ? word(at, 0) : (word(at, 0) >>> 0) + word(at, 4) * 4294967296;
    values[at] = before + value;
    if (delta) before = values[at];
  }
  return values;
}

const inMicroseconds = (ns) => ns.map((value) => value / 1000);

const samples = new Map();

/** Sequence numbers and values (ns) of a trace that has every packet, decoded once. */
function samplesOf(stream, trace) {
  if (!samples.has(trace)) samples.set(trace, trace.samples.sum ? added(stream, trace) : ownSamples(trace.samples));
  return samples.get(trace);
}

const ownSamples = async ({ sequence, value }) => ({ sequence: await unpacked(sequence), value: await unpacked(value) });

/** The same where they are sums of other metrics' values of the same packets, and a constant. */
async function added(stream, { cell, samples: { sum, plus, sequence } }) {
  const traceOf = (metric) =>
    views.find((one) => one.stream === stream && one.metric === metric).traces.find((one) => one.cell === cell);
  const parts = await Promise.all(sum.map(([metric]) => samplesOf(stream, traceOf(metric))));
  const numbers = sequence ? await unpacked(sequence) : parts[0].sequence;
  const value = new Float64Array(numbers.length).fill(plus);
  parts.forEach((part, which) => {
    const sign = sum[which][1];
    let at = 0;
    numbers.forEach((number, row) => {
      while (part.sequence[at] < number) at++;
      value[row] += sign * part.value[at];
    });
  });
  return { sequence: numbers, value };
}

/** A trace ready to draw: times in s, values in µs. `count` and `binLength` (s) are there where it comes in bins. */
async function decodedTrace(stream, trace) {
  // What has no schedule brings its launch times along.
  const launched = async (sequence, times) =>
    times
      ? (await unpacked(times)).map((at) => at / 1e9)
      : sequence.map((number) => (trace.offset + number * trace.period) / 1e9);
  const shared = {
    ...trace,
    lostAt: await launched(await unpacked(trace.lost), trace.lostTime),
    counts: await unpacked(trace.histogram),
    ccdfValue: inMicroseconds(await unpacked(trace.ccdf.value)),
    ccdfCount: await unpacked(trace.ccdf.count),
  };
  if (trace.samples) {
    const { sequence, value: ns } = await samplesOf(stream, trace);
    const value = inMicroseconds(ns);
    const time = await launched(sequence, trace.samples.time);
    return { ...shared, sequence, time, low: value, high: value, count: null, binLength: 0 };
  }
  const { length, begin, min, max, count } = trace.bins;
  return {
    ...shared,
    time: (await unpacked(begin)).map((at) => (at + length / 2) / 1e9),
    low: inMicroseconds(await unpacked(min)),
    high: inMicroseconds(await unpacked(max)),
    count: await unpacked(count),
    binLength: length / 1e9,
  };
}
