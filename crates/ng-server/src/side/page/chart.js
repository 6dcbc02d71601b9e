// Charts as SVG: lines over time, bars, stacked bars. Each has a name, a table that says the same,
// and can be read with the arrow keys. Axes of bars begin at 0, and so do those of lines.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH_MIN = 260;
const HEIGHT = 190;
const LEFT = 58;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 26;

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A number with few digits and a prefix of its unit.
export function shown(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "not measured";
  if (unit === "%") return `${round(value * 100)} %`;
  if (unit === "s") return time(value);
  if (unit === "B") return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  if (unit === "×") return `${round(value)} ×`;
  const number = scaled(value, 1000, ["", "k", "M", "G"]);
  return unit ? `${number}${/[a-zA-Z]$/.test(number) ? "" : " "}${unit}` : number;
}

function scaled(value, base, names) {
  let at = 0;
  let rest = value;
  while (Math.abs(rest) >= base && at + 1 < names.length) {
    rest /= base;
    at += 1;
  }
  return `${round(rest)} ${names[at]}`.trim();
}

function time(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${round(seconds * 1e3)} ms`;
  return `${round(seconds)} s`;
}

function round(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits))).replace("-", "−");
}

// Ends of an axis from 0, and where its lines are: 1, 2 or 5 times a power of the base.
export function ticks(max, unit = "") {
  const top = max > 0 && Number.isFinite(max) ? max : 1;
  const base = unit === "B" ? 1024 ** Math.floor(Math.log(Math.max(top, 1)) / Math.log(1024)) : 1;
  const rough = top / base / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power * base;
  const count = Math.ceil(top / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, at) => at * step);
}

// A figure with a heading, a place for a chart, and its table.
export class Chart {
  constructor(title, note) {
    this.title = title;
    this.body = make("div", { class: "plot" });
    this.readout = make("p", { class: "readout", "aria-live": "polite" });
    this.table = make("div", { class: "scroll", tabindex: 0, role: "region" });
    this.table.setAttribute("aria-label", `${title}, as a table`);
    this.details = make("details", {}, make("summary", {}, "Table"), this.table);
    this.details.addEventListener("toggle", () => this.fillTable());
    this.element = make(
      "figure",
      {},
      make("figcaption", {}, make("h3", {}, title), note ? make("p", {}, note) : null),
      this.body, this.readout, this.details,
    );
    this.at = null;
  }

  // Says why there is nothing.
  empty(why) {
    this.body.replaceChildren(make("p", { class: "empty" }, why));
    this.readout.textContent = "";
    this.rows = null;
    this.fillTable();
  }

  setTable(head, rows) {
    this.rows = { head, rows };
    this.fillTable();
  }

  fillTable() {
    this.details.hidden = !this.rows;
    if (this.details.open && this.rows) {
      this.table.replaceChildren(table(this.title, this.rows.head, this.rows.rows));
    }
  }

  // Lines over time. series: [{ name, points: [[seconds, value or null]] }], window: [from, to].
  lines(series, unit, window) {
    const values = series.flatMap((one) => one.points.map((point) => point[1]));
    const known = values.filter((value) => value !== null && Number.isFinite(value));
    if (!known.length) return this.empty("nothing in this time");
    const lines = ticks(Math.max(...known), unit);
    const top = lines[lines.length - 1];
    const width = this.measure();
    const x = (seconds) =>
      LEFT + ((seconds - window[0]) / (window[1] - window[0])) * (width - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
    const parts = [...grid(lines, y, unit, width), ...timeAxis(window, x)];
    series.forEach((one, at) => {
      parts.push(draw("path", { class: `line s${at % 6}`, d: pathOf(one.points, x, y) }));
    });
    this.cursor = draw("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
    const latest = series.map((one) => `${one.name} ${shown(last(one.points), unit)}`).join(", ");
    this.picture(parts.concat(this.cursor), `${this.title}. Now: ${latest}`);
    this.body.append(legend(series.map((one) => one.name)));
    this.state = { series, unit, x, window };
    this.showAt(this.at);
    const times = series[0].points.map((point) => point[0]).slice(-60).reverse();
    const rows = times.map((seconds) => [
      `${Math.round(seconds - window[1])} s`.replace("-", "−"),
      ...series.map((one) => shown(valueAt(one.points, seconds), unit)),
    ]);
    this.setTable(["time", ...series.map((one) => one.name)], rows);
  }

  // A unit of a picture is a pixel, so that its text is as large as any other.
  measure() {
    this.width = Math.max(WIDTH_MIN, this.body.clientWidth);
    return this.width;
  }

  picture(parts, name) {
    if (!this.svg) {
      this.svg = draw("svg", { tabindex: 0, role: "img" });
      this.svg.addEventListener("keydown", (event) => this.onKey(event));
      this.svg.addEventListener("pointermove", (event) => this.onPointer(event));
      this.svg.addEventListener("pointerleave", () => this.showAt(null));
      this.svg.addEventListener("blur", () => this.showAt(null));
    }
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.svg.setAttribute("aria-label", name);
    this.svg.replaceChildren(...parts);
    // Moved only where it is not there yet: moving it takes the focus away.
    if (this.svg.parentNode !== this.body) this.body.replaceChildren(this.svg);
    while (this.svg.nextSibling) this.svg.nextSibling.remove();
  }

  onKey(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1 };
    if (!this.state || !(event.key in moves)) return;
    event.preventDefault();
    const times = this.state.series[0].points.map((point) => point[0]);
    const nearest = this.at === null ? times.length - 1 : indexNear(times, this.at);
    const next = this.at === null ? nearest : nearest + moves[event.key];
    this.showAt(times[Math.max(0, Math.min(times.length - 1, next))]);
  }

  onPointer(event) {
    if (!this.state) return;
    const box = this.svg.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * this.width;
    const times = this.state.series[0].points.map((point) => point[0]);
    const places = times.map((seconds) => this.state.x(seconds));
    this.showAt(times[indexNear(places, wanted)]);
  }

  // Names the values of a time.
  showAt(seconds) {
    this.at = seconds;
    if (!this.state) return;
    const { series, unit, x, window } = this.state;
    const inside = seconds !== null && seconds >= window[0];
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, inside ? x(seconds) : -9);
    const ago = Math.round(window[1] - (seconds ?? 0));
    this.readout.textContent = inside
      ? `${ago} s ago: ` +
        series.map((one) => `${one.name} ${shown(valueAt(one.points, seconds), unit)}`).join(", ")
      : "";
  }

  // Columns side by side: [{ name, value }].
  columns(all, unit, nameOfAxis) {
    const lines = ticks(Math.max(...all.map((one) => one.value)), unit);
    const top = lines[lines.length - 1];
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
    const width = this.measure();
    const wide = (width - LEFT - RIGHT) / all.length;
    const parts = grid(lines, y, unit, width);
    all.forEach((one, at) => {
      const left = LEFT + at * wide;
      const rect = {
        class: "bar s0", x: left + wide * 0.12, width: wide * 0.76,
        y: y(one.value), height: y(0) - y(one.value),
      };
      const label = { class: "tick", x: left + wide / 2, y: HEIGHT - 9, "text-anchor": "middle" };
      parts.push(draw("rect", rect), draw("text", label, one.name));
    });
    const said = all.map((one) => `${one.name}: ${shown(one.value, unit)}`);
    this.state = null;
    this.picture(parts, `${this.title}. ${said.join(", ")}`);
    this.body.append(make("p", { class: "axis" }, nameOfAxis));
    this.setTable([nameOfAxis, this.title], all.map((one) => [one.name, shown(one.value, unit)]));
  }

  // Bars that are made of parts: rows [{ name, parts: [{ name, value }], of }].
  stacks(rows, unit) {
    this.svg = null;
    const max = Math.max(...rows.map((row) => row.of ?? total(row.parts)), 0);
    if (!(max > 0)) return this.empty("nothing in this time");
    const names = [...new Set(rows.flatMap((row) => row.parts.map((part) => part.name)))];
    const bars = rows.map((row) => {
      const shares = row.parts.map((part) =>
        draw("rect", {
          class: `bar s${names.indexOf(part.name) % 6}`, y: 0, height: 18,
          x: (before(row.parts, part) / max) * 1000, width: (part.value / max) * 1000,
        }),
      );
      const end = row.of ? { class: "limit", x1: (row.of / max) * 1000 - 2, y1: 0, y2: 18 } : null;
      if (end) shares.push(draw("line", { ...end, x2: end.x1 }));
      const said = row.parts.map((part) => `${part.name} ${shown(part.value, unit)}`).join(", ");
      const svg = draw(
        "svg",
        {
          class: "stack", viewBox: "0 0 1000 18", preserveAspectRatio: "none",
          role: "img", "aria-label": `${row.name}: ${said}`,
        },
        ...shares,
      );
      const of = row.of ? ` of ${shown(row.of, unit)}` : "";
      const sum = `${shown(total(row.parts), unit)}${of}`;
      return make("div", { class: "stacked" }, make("p", {}, make("span", {}, row.name), sum), svg);
    });
    this.body.replaceChildren(...bars, legend(names, true));
    const cells = rows.flatMap((row) =>
      row.parts.map((part) => [row.name, part.name, shown(part.value, unit)]),
    );
    this.setTable(["of", "part", "size"], cells);
  }
}

function total(parts) {
  return parts.reduce((sum, part) => sum + part.value, 0);
}

function before(parts, part) {
  return total(parts.slice(0, parts.indexOf(part)));
}

function last(points) {
  return points.length ? points[points.length - 1][1] : null;
}

function valueAt(points, seconds) {
  const found = points.find((point) => point[0] === seconds);
  return found ? found[1] : null;
}

function indexNear(all, wanted) {
  let best = 0;
  all.forEach((one, at) => {
    if (Math.abs(one - wanted) < Math.abs(all[best] - wanted)) best = at;
  });
  return best;
}

// A line that breaks where a value is missing.
function pathOf(points, x, y) {
  let path = "";
  let pen = "M";
  for (const [seconds, value] of points) {
    if (value === null || !Number.isFinite(value)) {
      pen = "M";
    } else {
      path += `${pen}${x(seconds).toFixed(1)} ${y(value).toFixed(1)}`;
      if (pen === "M") path += "h0.01";
      pen = "L";
    }
  }
  return path;
}

function grid(lines, y, unit, width) {
  return lines.flatMap((value) => [
    draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    draw(
      "text",
      { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" },
      shown(value, unit),
    ),
  ]);
}

function timeAxis(window, x) {
  const names = [[window[0], `−${Math.round((window[1] - window[0]) / 60)} min`, "start"],
    [(window[0] + window[1]) / 2, `−${(window[1] - window[0]) / 120} min`, "middle"],
    [window[1], "now", "end"]];
  return names.map(([seconds, name, anchor]) =>
    draw("text", { class: "tick", x: x(seconds), y: HEIGHT - 8, "text-anchor": anchor }, name),
  );
}

function legend(names, isBar = false) {
  const items = names.map((name, at) => {
    const mark = isBar
      ? draw("rect", { class: `bar s${at % 6}`, width: 22, height: 10, rx: 2 })
      : draw("line", { class: `line s${at % 6}`, x1: 0, x2: 22, y1: 5, y2: 5 });
    const key = draw("svg", { class: "key", viewBox: "0 0 22 10", "aria-hidden": "true" }, mark);
    return make("li", {}, key, name);
  });
  return make("ul", { class: "legend" }, ...items);
}

// A table with a caption for those who do not see where it stands.
export function table(caption, head, rows) {
  const cell = (tag, content, scope) =>
    make(tag, { scope, class: /^[\d.,−]+( \S+)?$/.test(content) ? "number" : null }, content);
  return make(
    "table",
    {},
    make("caption", { class: "hidden" }, caption),
    make("thead", {}, make("tr", {}, ...head.map((name) => cell("th", name, "col")))),
    make(
      "tbody",
      {},
      ...rows.map((row) =>
        make("tr", {}, ...row.map((one, at) => cell(at ? "td" : "th", one, at ? null : "row"))),
      ),
    ),
  );
}
