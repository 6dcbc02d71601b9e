// Metrics in the text format of Prometheus, and what follows from two readings of them: rates,
// percentiles of classes, means. What a server does not measure is null here, never 0.

const SAMPLES_MAX = 20000;

// [{ name, labels: {key: text}, value }] of a text; lines that are none are left out.
export function parse(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const sample = parseLine(line);
    if (sample) samples.push(sample);
    if (samples.length >= SAMPLES_MAX) break;
  }
  return samples;
}

function parseLine(line) {
  const head = /^\s*([A-Za-z_:][A-Za-z0-9_:]*)\s*/.exec(line);
  if (!head) return null;
  const labels = {};
  let at = head[0].length;
  if (line[at] === "{") {
    at += 1;
    while (line[at] !== "}") {
      const key = /^[\s,]*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"/.exec(line.slice(at));
      if (!key) {
        if (/^[\s,]*\}/.test(line.slice(at))) { at = line.indexOf("}", at); break; }
        return null;
      }
      at += key[0].length;
      let value = "";
      while (line[at] !== '"') {
        if (at >= line.length) return null;
        if (line[at] === "\\") {
          at += 1;
          value += line[at] === "n" ? "\n" : line[at] ?? "";
        } else {
          value += line[at];
        }
        at += 1;
      }
      at += 1;
      labels[key[1]] = value;
    }
    at += 1;
  }
  const word = line.slice(at).trim().split(/\s+/)[0];
  const value = number(word);
  return value === null ? null : { name: head[1], labels, value };
}

function number(word) {
  if (word === "+Inf" || word === "Inf") return Infinity;
  if (word === "-Inf") return -Infinity;
  if (word === "NaN") return NaN;
  return word && Number.isFinite(Number(word)) ? Number(word) : null;
}

// One reading: samples by name, when they were read.
export class Reading {
  constructor(text, seconds) {
    this.seconds = seconds;
    this.byName = new Map();
    for (const sample of parse(text)) {
      if (!this.byName.has(sample.name)) this.byName.set(sample.name, []);
      this.byName.get(sample.name).push(sample);
    }
  }

  has(name) {
    return this.byName.has(name) || this.byName.has(`${name}_bucket`);
  }

  // Samples of a name whose labels are these.
  all(name, labels = {}) {
    const wanted = Object.entries(labels);
    const fits = (sample) => wanted.every(([key, value]) => sample.labels[key] === value);
    return (this.byName.get(name) ?? []).filter(fits);
  }

  // Their sum; null if there are none.
  sum(name, labels = {}) {
    const all = this.all(name, labels);
    return all.length ? all.reduce((sum, sample) => sum + sample.value, 0) : null;
  }

  // What stands under a label, in order.
  values(name, key) {
    return [...new Set(this.all(name).map((sample) => sample.labels[key] ?? ""))].sort();
  }
}

// How much a counter grew between readings; null if it is not measured or began anew.
export function growth(older, newer, name, labels = {}) {
  if (!older) return null;
  const after = newer.sum(name, labels);
  if (after === null) return null;
  // A counter appears with its first event.
  const before = older.sum(name, labels) ?? 0;
  return after >= before ? after - before : null;
}

export function rate(older, newer, name, labels = {}) {
  const grown = growth(older, newer, name, labels);
  const seconds = older ? newer.seconds - older.seconds : 0;
  return grown === null || seconds <= 0 ? null : grown / seconds;
}

// [{ end, count }] of a histogram between readings, each class by itself; null if not measured.
export function classes(older, newer, name, labels = {}) {
  const bucket = `${name}_bucket`;
  if (!older || !newer.byName.has(bucket)) return null;
  const ends = new Map();
  const add = (reading, sign) => {
    for (const sample of reading.all(bucket, labels)) {
      const end = number(sample.labels.le ?? "");
      if (end !== null) ends.set(end, (ends.get(end) ?? 0) + sign * sample.value);
    }
  };
  add(newer, 1);
  add(older, -1);
  const sorted = [...ends].sort((a, b) => a[0] - b[0]);
  let before = 0;
  const own = sorted.map(([end, total]) => {
    const count = total - before;
    before = total;
    return { end, count };
  });
  return own.some((one) => one.count < 0) ? null : own;
}

// The value below which a share lies, from classes: inside a class as if evenly spread.
// { value, over, under }: the last end if it lies above it (`over`), and the first end if it lies
// below it (`under`); null if there is nothing.
export function percentile(all, share) {
  if (!all) return null;
  const total = all.reduce((sum, one) => sum + one.count, 0);
  if (total <= 0) return null;
  const rank = share * total;
  let seen = 0;
  let start = 0;
  for (const { end, count } of all) {
    if (count > 0 && seen + count >= rank) {
      if (end === Infinity) return { value: start, over: true };
      if (start === 0) return { value: end, over: false, under: true };
      return { value: start + (end - start) * ((rank - seen) / count), over: false };
    }
    seen += count;
    if (end !== Infinity) start = end;
  }
  return { value: start, over: true };
}

// The mean of what a histogram saw between readings.
export function mean(older, newer, name, labels = {}) {
  const sum = growth(older, newer, `${name}_sum`, labels);
  const count = growth(older, newer, `${name}_count`, labels);
  return sum === null || !count ? null : sum / count;
}
