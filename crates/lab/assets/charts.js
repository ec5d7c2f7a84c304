"use strict";
// What is drawn: for each experiment its plots, as Vega-Lite specifications. Nothing here knows
// where on the page a plot stands.

const ENGINES = ["inp", "nvm-inp", "cow", "nvm-cow", "log", "nvm-log"];
const MIXES = ["read-only", "read-heavy", "balanced", "write-heavy"];
const COMPONENTS = {
  "P1-F13": ["storage", "recovery", "index", "other"],
  "P1-F14": ["table", "index", "log", "checkpoint", "other"],
};
const PANEL_NAMES = {
  low: "low skew", high: "high skew", ycsb: "YCSB", tpcc: "TPC-C",
  sequential: "sequential writes", random: "random writes",
};
const DATABASES = ["lmdb", "sqlite", "redb", "fjall", "rocksdb"];

// Colours that stay apart for colour-blind readers (Okabe and Ito); a twin shares its hue and
// differs in fill and dash.
function palette(dark) {
  const blue = dark ? "#63b3ea" : "#0072b2", red = dark ? "#f08a4b" : "#d55e00";
  const green = dark ? "#3ecf9f" : "#009e73", pink = dark ? "#e39bc4" : "#b1518a";
  const sand = dark ? "#e3c15a" : "#b98a00", grey = dark ? "#9aa3ad" : "#6b7280";
  const sky = dark ? "#a9d4f5" : "#56b4e9";
  return { blue, red, green, pink, sand, grey, sky };
}

function theme(dark, width) {
  const ink = dark ? "#e8ebef" : "#1b1f24", soft = dark ? "#a4adb8" : "#57606a";
  const line = dark ? "#343b44" : "#d9dde3";
  const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  return {
    background: "transparent", font, padding: 4,
    view: { stroke: null },
    axis: {
      labelColor: soft, titleColor: soft, gridColor: line, domainColor: line, tickColor: line,
      labelFontSize: 11, titleFontSize: 11, titleFontWeight: 500, gridOpacity: 0.7,
    },
    axisX: { grid: false, labelAngle: 0, labelLimit: 110 },
    legend: { labelColor: ink, titleColor: soft, labelFontSize: 11, symbolSize: 90, orient: "bottom", columns: width > 420 ? 6 : 3, title: null },
    header: { labelColor: ink, titleColor: soft },
    text: { color: ink }, rule: { color: soft },
  };
}

const hue = { fast: "blue", fash: "red", nvwal: "green", inp: "blue", "nvm-inp": "blue", cow: "red", "nvm-cow": "red", log: "green", "nvm-log": "green" };
const traditional = (name) => ["inp", "cow", "log"].includes(name);

function seriesScale(names, dark) {
  const colours = palette(dark);
  const rest = ["pink", "sand", "grey", "sky"];
  let next = 0;
  const grouped = { "inp, grouped": "sky", "cow, grouped": "sand", "log, grouped": "grey", "nvm-cow, grouped": "pink" };
  const pick = (name) => {
    if (hue[name]) return colours[hue[name]];
    if (grouped[name]) return colours[grouped[name]];
    if (name === "allocator" || name === "measured" || name === "nvm loads") return colours.blue;
    if (name === "filesystem" || name === "model" || name === "nvm stores") return colours.sand;
    return colours[rest[next++ % rest.length]];
  };
  return { domain: names, range: names.map(pick) };
}

const distinct = (rows, of) => [...new Set(rows.map(of))];
function ordered(names, order) {
  const place = (name) => { const at = order.indexOf(name); return at < 0 ? order.length : at; };
  return [...names].sort((a, b) => place(a) - place(b) || String(a).localeCompare(String(b)));
}

const tooltip = (x) => [
  { field: "series", title: "who" },
  { field: "x", title: x },
  { field: "value", title: "value", format: ",.4~g" },
  { field: "unit", title: "unit" },
  { field: "low", title: "low end", format: ",.4~g" },
  { field: "high", title: "high end", format: ",.4~g" },
  { field: "emulated", title: "emulated" },
];

// A line from the low to the high end of what is uncertain, if anything is.
function uncertain(rows, encoding) {
  const wide = (row) => row.high > row.low * 1.0001;
  if (!rows.some(wide)) return [];
  const transform = [{ filter: "datum.high > datum.low * 1.0001" }];
  return [{ transform, mark: { type: "rule", strokeWidth: 1.1 }, encoding }];
}

// Bars side by side for each place on the axis; what is uncertain has a line from end to end.
function bars(rows, options) {
  const { dark, xTitle, yTitle, order = [] } = options;
  const series = ordered(distinct(rows, (row) => row.series), ENGINES);
  const xs = ordered(distinct(rows, (row) => row.x), order);
  const colour = seriesScale(series, dark);
  const x = { field: "x", type: "nominal", sort: xs, title: xTitle || null, axis: { labelOverlap: false } };
  const offset = { field: "series", sort: series };
  const quantity = options.log
    ? { type: "quantitative", scale: { type: "log", domainMin: 1 }, title: yTitle, axis: { format: "~s", tickCount: 4 } }
    : { type: "quantitative", title: yTitle, axis: { format: "~s", tickCount: 5 } };
  // The traditional engines are filled lightly.
  const filled = { domain: series, range: colour.range.map((one, at) => one + (traditional(series[at]) ? "40" : "f2")) };
  const base = options.log ? { y2: { datum: 1 } } : {};
  return {
    values: rows,
    height: 230,
    layer: [
      {
        mark: { type: "bar", cornerRadiusEnd: 1.5, strokeWidth: 1.2 },
        encoding: {
          x, xOffset: offset, y: { field: "value", ...quantity }, ...base,
          fill: { field: "series", type: "nominal", scale: filled, sort: series },
          stroke: { field: "series", type: "nominal", scale: colour, sort: series },
          tooltip: tooltip(xTitle || "at"),
        },
      },
      ...uncertain(rows, { x, xOffset: offset, y: { field: "low", ...quantity }, y2: { field: "high" } }),
    ],
  };
}

// Lines over a quantity.
function lines(rows, options) {
  const { dark, xTitle, yTitle, logX = true, logY = true, format = "~s" } = options;
  const series = ordered(distinct(rows, (row) => row.series), ENGINES.concat(DATABASES));
  const colour = seriesScale(series, dark);
  const xs = distinct(rows, (row) => row.x).sort((a, b) => a - b);
  const dashed = series.filter((name) => traditional(name) || name.startsWith("floor") || name.endsWith("map"));
  const x = {
    field: "x", type: "quantitative", title: xTitle,
    scale: { type: logX ? "log" : "linear", domain: [xs[0], xs[xs.length - 1]], nice: false },
    axis: { values: xs, format, labelOverlap: true },
  };
  const y = {
    field: "value", type: "quantitative", title: yTitle,
    scale: logY ? { type: "log" } : { zero: true }, axis: { format: "~s", tickCount: 5 },
  };
  const color = { field: "series", type: "nominal", scale: colour, sort: series };
  return {
    values: rows,
    height: 240,
    layer: [
      {
        mark: { type: "line", strokeWidth: 2 },
        encoding: {
          x, y, color,
          strokeDash: { condition: { test: { field: "series", oneOf: dashed.length ? dashed : ["-"] }, value: [5, 3] }, value: [1, 0] },
        },
      },
      { mark: { type: "point", filled: true, size: 42, opacity: 1 }, encoding: { x, y, color, tooltip: tooltip(xTitle) } },
      ...uncertain(rows, { x, y: { ...y, field: "low" }, y2: { field: "high" }, color }),
    ],
  };
}

// Parts of a whole.
function stacks(rows, options) {
  const { dark, parts, yTitle, percent } = options;
  const colours = palette(dark);
  const range = [colours.blue, colours.red, colours.green, colours.sand, colours.grey].slice(0, parts.length);
  const engines = ordered(distinct(rows, (row) => row.series), ENGINES);
  return {
    values: rows,
    height: 230,
    transform: [{ filter: { field: "x", oneOf: parts } }],
    mark: { type: "bar" },
    encoding: {
      x: { field: "series", type: "nominal", sort: engines, title: null },
      y: {
        field: "value", type: "quantitative", title: yTitle, stack: "zero",
        axis: { format: percent ? "d" : "~s", tickCount: 5 },
      },
      color: { field: "x", type: "nominal", sort: parts, scale: { domain: parts, range } },
      order: { field: "place", type: "quantitative" },
      tooltip: tooltip("part"),
    },
  };
}

// One bar each, the longest first.
function ranking(rows, options) {
  const { dark, xTitle, ascending } = options;
  const colours = palette(dark);
  const kind = (name) =>
    name.startsWith("floor") || name.endsWith("map") ? "bounds, no database"
      : DATABASES.includes(name) ? "other databases" : "Perdura";
  const kinds = ["Perdura", "other databases", "bounds, no database"];
  const data = rows.map((row) => ({ ...row, kind: kind(row.series) }));
  const order = [...data].sort((a, b) => (ascending ? a.value - b.value : b.value - a.value));
  const y = { field: "series", type: "nominal", title: null, sort: distinct(order, (row) => row.series) };
  const scale = options.log ? { type: "log" } : { zero: true };
  const x = { type: "quantitative", title: xTitle, scale, axis: { format: "~s", tickCount: 4, grid: true } };
  return {
    values: data,
    height: Math.max(3, data.length) * 20,
    layer: [
      {
        mark: { type: "bar", cornerRadiusEnd: 1.5 },
        encoding: {
          y, x: { field: "value", ...x },
          color: { field: "kind", type: "nominal", sort: kinds, scale: { domain: kinds, range: [colours.blue, colours.sand, colours.grey] } },
          tooltip: tooltip("at"),
        },
      },
      ...uncertain(data, { y, x: { field: "low", ...x }, x2: { field: "high" } }),
    ],
  };
}

// The plots of an experiment: title, the rows it shows, and how to make its specification.
function chartsOf(id, rows) {
  const of = (metric) => rows.filter((row) => row.metric === metric);
  const panels = (list, order, make) =>
    ordered(distinct(list, (row) => row.panel), order).map((panel) => {
      const part = list.filter((row) => row.panel === panel);
      return { title: PANEL_NAMES[panel] || panel, rows: part, make: (dark) => make(part, dark, panel) };
    });
  const bytes = "~s";
  switch (id) {
    case "P1-F1":
      return panels(of("bandwidth"), ["sequential", "random"], (part, dark) =>
        lines(part, { dark, xTitle: "chunk (bytes)", yTitle: "bytes a second" }));
    case "P1-F5": case "P1-F6": case "P1-F7": {
      const emulated = panels(of("throughput"), ["low", "high"], (part, dark) =>
        bars(part, { dark, yTitle: "transactions a second", order: MIXES }));
      const grouped = of("native throughput, grouped").filter((row) => row.panel === "low");
      if (grouped.length === 0) return emulated;
      const alone = of("native throughput").filter((row) => row.panel === "low" && row.x !== "read-only");
      const all = alone.concat(grouped.map((row) => ({ ...row, series: `${row.series}, grouped` })));
      return emulated.concat({
        title: "this machine, one core, low skew: durable one by one, and in groups of 64", rows: all,
        make: (dark) => bars(all, { dark, yTitle: "transactions a second", order: MIXES }),
      });
    }
    case "P1-F8":
      return panels(of("throughput"), [], (part, dark) =>
        bars(part.map((row) => ({ ...row, x: `${row.x} ns` })), { dark, yTitle: "transactions a second", order: ["160 ns", "320 ns", "1280 ns"] }));
    case "P1-F9":
      return panels(of("nvm loads"), ["low", "high"], (part, dark) =>
        bars(part, { dark, yTitle: "lines loaded a transaction", order: MIXES }));
    case "P1-F10":
      return panels(of("nvm stores"), ["low", "high"], (part, dark) =>
        bars(part, { dark, yTitle: "lines stored a transaction", order: MIXES }));
    case "P1-F11": {
      const both = of("nvm loads").concat(of("nvm stores"));
      return both.length === 0 ? [] : [{
        title: "loads and stores", rows: both,
        make: (dark) => bars(both.map((row) => ({ ...row, x: row.metric })), { dark, yTitle: both[0].unit === "count" ? "lines" : "lines a transaction" }),
      }];
    }
    case "P1-F12":
      return panels(of("recovery"), ["ycsb", "tpcc"], (part, dark) =>
        lines(part.filter((row) => row.value > 0), { dark, xTitle: "transactions before the kill", yTitle: "milliseconds" }));
    case "P1-F13": case "P1-F14": {
      const parts = COMPONENTS[id], percent = id === "P1-F13";
      const list = of(percent ? "time share" : "footprint").filter((row) => row.x !== "total")
        .map((row) => ({ ...row, place: parts.indexOf(row.x) }));
      return panels(list, percent ? MIXES : ["ycsb", "tpcc"], (part, dark) =>
        stacks(part, { dark, parts, percent, yTitle: percent ? "% of the time" : "bytes" }));
    }
    case "P1-T3": {
      const both = rows.filter((row) => row.metric === "measured" || row.metric === "model");
      return ordered(distinct(both, (row) => row.x), ["insert", "update", "delete"]).map((operation) => {
        const part = both.filter((row) => row.x === operation);
        const turned = part.map((row) => ({ ...row, x: row.series, series: row.metric }));
        return {
          title: operation, rows: part,
          make: (dark) => bars(turned, { dark, yTitle: "bytes written (log scale)", order: ENGINES, log: true }),
        };
      });
    }
    case "P1-F15":
      return panels(of("throughput"), MIXES, (part, dark) =>
        lines(part, { dark, xTitle: "bytes of a node", yTitle: "transactions a second", logY: false, format: bytes }));
    case "P1-F16":
      return panels(of("throughput"), MIXES, (part, dark) =>
        lines(part, { dark, xTitle: "nanoseconds of a sync", yTitle: "transactions a second", logY: false }));
    case "P3-F6":
      return panels(of("time"), ["all", "search", "update", "commit"], (part, dark) =>
        lines(part, { dark, xTitle: "nanoseconds of a read or write", yTitle: "microseconds", logX: false, logY: false, format: "d" }));
    case "P3-F7":
      return panels(of("time"), ["insert", "record flush", "slot header", "defragmentation"], (part, dark) =>
        lines(part, { dark, xTitle: "nanoseconds of a read or write", yTitle: "microseconds", logX: false, logY: false, format: "d" }));
    case "P3-F8":
      return panels(of("time"), ["commit", "computation", "heap management", "log flush", "checkpoint", "misc"], (part, dark) =>
        lines(part, { dark, xTitle: "nanoseconds of a write", yTitle: "microseconds", logX: false, logY: false, format: "d" }));
    case "P3-F9": case "P3-F10": {
      const xTitle = id === "P3-F9" ? "bytes of a record" : "inserts of a transaction";
      return [["time", "microseconds"], ["flushes", "lines flushed"], ["share of defragmentation", "% of the flushes"]]
        .map(([metric, yTitle]) => ({ metric, yTitle, part: of(metric).filter((row) => row.value > 0) }))
        .filter(({ part }) => part.length > 0)
        .map(({ metric, yTitle, part }) => ({
          title: metric, rows: part,
          make: (dark) => lines(part, { dark, xTitle, yTitle: `${yTitle} (log scale)` }),
        }));
    }
    case "P3-F12":
      return panels(of("throughput"), [], (part, dark) =>
        lines(part, { dark, xTitle: "% of reads", yTitle: "transactions a second", logX: false, logY: false, format: "d" }));
    case "P4-F8": {
      const course = of("throughput of 100 ms").map((row) => ({ ...row, panel: "" }));
      const sized = (metric, yTitle) => ({
        title: metric, rows: of(metric),
        make: (dark) => lines(of(metric), { dark, xTitle: "subscribers", yTitle, logX: false, logY: false }),
      });
      return [
        { title: "course", rows: course, make: (dark) => lines(course, { dark, xTitle: "seconds", yTitle: "transactions a second", logX: false, logY: false, format: "d" }) },
        sized("recovery area", "transactions"), sized("recovery delta", "seconds"),
      ].filter((chart) => chart.rows.length > 0);
    }
    case "P4-F9": case "P4-F10":
      return distinct(rows.filter((row) => row.panel !== "counts"), (row) => row.metric).map((metric) => ({
        title: metric, rows: of(metric),
        make: (dark) => lines(of(metric).map((row) => ({ ...row, series: row.panel || "sofort" })), { dark, xTitle: "% of the indexes in persistent memory", yTitle: of(metric)[0].unit, logX: false, logY: false, format: "d" }),
      }));
    case "PEERS-MIX": {
      const sizes = distinct(rows, (row) => row.panel);
      const size = sizes.includes("200000") ? "200000" : sizes[sizes.length - 1];
      const list = of("throughput").filter((row) => row.panel === size);
      const many = Number(size).toLocaleString("en");
      return MIXES.filter((mix) => list.some((row) => row.x === mix)).map((mix) => {
        const part = list.filter((row) => row.x === mix);
        return { title: `${mix}, ${many} tuples`, rows: part, make: (dark) => ranking(part, { dark, xTitle: "transactions a second" }) };
      }).concat(["balanced", "write-heavy"].map((mix) => {
        const part = of("p99 to durability").filter((row) => row.panel === size && row.x === mix);
        return {
          title: `p99 to durability, ${mix}, ${many} tuples`, rows: part,
          make: (dark) => ranking(part, { dark, xTitle: "microseconds", ascending: true }),
        };
      }).filter((chart) => chart.rows.length > 0));
    }
    case "PEERS-GROWTH": {
      const parts = of("time for a level or a line").map((row) => ({ ...row, series: row.panel }));
      return panels(of("time of a transaction"), MIXES, (part, dark) =>
        lines(part, { dark, xTitle: "tuples", yTitle: "microseconds (log scale)" }))
        .concat(parts.length === 0 ? [] : [{
          title: "nvm-inp, for each level and line", rows: parts,
          make: (dark) => lines(parts, { dark, xTitle: "tuples", yTitle: "nanoseconds", logY: false }),
        }]);
    }
    case "PEERS-CHURN": {
      const part = of("stored");
      return part.length === 0 ? [] : [{
        title: "stored", rows: part,
        make: (dark) => lines(part, { dark, xTitle: "operations after the warm-up", yTitle: "bytes", logX: false, logY: false }),
      }];
    }
    case "PEERS-THREADS": {
      const part = of("scaling");
      return part.length === 0 ? [] : [{
        title: "two threads over one", rows: part,
        make: (dark) => bars(part, { dark, yTitle: "times", order: MIXES }),
      }];
    }
    case "PEERS-SPACE": {
      const list = of("space for a byte of user data");
      const largest = Math.max(...list.map((row) => row.x));
      const part = list.filter((row) => row.x === largest);
      return part.length === 0 ? [] : [{
        title: `${largest.toLocaleString("en")} tuples`, rows: part,
        make: (dark) => ranking(part, { dark, xTitle: "bytes for a byte", ascending: true }),
      }];
    }
    case "PEERS-REOPEN":
      return panels(of("first commit"), [], (part, dark) =>
        lines(part, { dark, xTitle: "tuples", yTitle: "milliseconds (log scale)" }))
        .map((chart) => ({ ...chart, title: "to the first durable commit" }));
    default:
      return [];
  }
}

// A complete specification for Vega-Lite.
function specification(chart, dark, width) {
  const { values, ...spec } = chart.make(dark);
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    description: chart.title, width: "container",
    autosize: { type: "fit", contains: "padding", resize: true },
    data: { values }, config: theme(dark, width), ...spec,
  };
}
