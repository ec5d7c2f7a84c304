// A curve over the ticks of the last half minute, with each kill marked.

const SVG = "http://www.w3.org/2000/svg";
const TICKS = 300;
const LEFT = 40;
const TOP = 14;
const BOTTOM = 18;

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The smallest of 1, 2, 5, 10, 20, ... that is not below.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-3)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

// `points` are [tick, value or null]; a tick without a value interrupts the curve.
export function draw(svg, points, crashes, now, what) {
  const width = svg.clientWidth || 400;
  const height = svg.clientHeight || 150;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const first = now - TICKS;
  const shown = points.filter(([tick]) => tick >= first);
  const values = shown.map(([, value]) => value ?? 0);
  const top = ceiling(Math.max(...values, 0.01));
  const x = (tick) => LEFT + ((tick - first) / TICKS) * (width - LEFT - 4);
  const base = height - BOTTOM;
  const y = (value) => base - (value / top) * (base - TOP);
  const children = [];
  for (const share of [0, 0.5, 1]) {
    const at = y(top * share);
    children.push(element("line", { class: "grid", x1: LEFT, x2: width - 4, y1: at, y2: at }));
    const label = String(Number((top * share).toPrecision(3)));
    children.push(element("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, label));
  }
  for (const seconds of [30, 20, 10, 0]) {
    const anchor = seconds === 30 ? "start" : seconds === 0 ? "end" : "middle";
    const at = x(now - seconds * 10);
    const label = seconds === 0 ? "now" : `-${seconds} s`;
    children.push(element("text", { x: at, y: height - 4, "text-anchor": anchor }, label));
  }
  let piece = [];
  const finish = () => {
    if (piece.length > 1) {
      const line = piece.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
      const [from, to] = [piece[0][0], piece[piece.length - 1][0]];
      children.push(element("polygon", { class: "area", points: `${from},${base} ${line} ${to},${base}` }));
      children.push(element("polyline", { class: "curve", points: line }));
    }
    piece = [];
  };
  for (const [tick, value] of shown) {
    if (value === null) finish();
    else piece.push([x(tick), y(value)]);
  }
  finish();
  for (const crash of crashes.filter((crash) => crash.tick >= first)) {
    const at = x(crash.tick);
    children.push(element("line", { class: "crash", x1: at, x2: at, y1: TOP - 4, y2: base }));
    children.push(element("text", { class: "crash-name", x: at, y: TOP - 5, "text-anchor": "middle" }, "kill"));
  }
  const last = values.length ? values[values.length - 1] : 0;
  svg.setAttribute("aria-label", `${what}: now ${last.toPrecision(3)}; ${crashes.length} kills so far`);
  svg.replaceChildren(...children);
}
