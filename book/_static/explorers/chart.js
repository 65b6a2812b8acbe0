// A small chart for explorers, drawn at the width it is given, so that its letters keep their size on a phone:
//   const chart = annotatedExplorer.chart({ width, height, x: axis, y: axis, title });
//   chart.line(points, color, dash); chart.dot(x, y, color); chart.rule("x" or "y", at, color, dash); chart.element
// An axis is { from, to, label, log, ticks, show(value) → text }. What lies outside is cut off.
// Also here: `drawn`, an SVG element; `atWidth`, which draws again when the width changes; `power`, 0.0007 as 7.00 · 10⁻⁴.
(function () {
  "use strict";
  const explorer = annotatedExplorer;
  const LEFT = 52, RIGHT = 14, TOP = 22, BOTTOM = 40;
  let charts = 0;

  function drawn(tag, attributes, children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes || {}).forEach(([name, value]) => {
      if (value !== null && value !== undefined) made.setAttribute(name, value);
    });
    made.append(...[].concat(children === undefined ? [] : children));
    return made;
  }

  // Call draw(width) with the width of `place`, in whole pixels, at first and whenever it changes.
  function atWidth(place, draw) {
    let before = 0;
    new ResizeObserver(() => {
      const width = Math.floor(place.clientWidth);
      if (width > 0 && width !== before) draw(before = width);
    }).observe(place);
  }

  function power(value) {
    const exponent = Math.floor(Math.log10(value) + 1e-9), digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
    const raised = (exponent < 0 ? "⁻" : "") + String(Math.abs(exponent)).replace(/\d/g, d => digits[d]);
    return (value / Math.pow(10, exponent)).toFixed(2) + "\u202f·\u202f10" + raised;
  }

  // About `count` round numbers in the range; on a logarithmic axis powers of ten.
  function ticksOf(axis, count) {
    if (axis.ticks) return axis.ticks;
    const found = [];
    if (axis.log) {
      const first = Math.ceil(Math.log10(axis.from) - 1e-9), last = Math.floor(Math.log10(axis.to) + 1e-9);
      const every = Math.ceil((last - first + 1) / (count + 1));
      for (let e = first; e <= last; e += every) found.push(Math.pow(10, e));
      return found;
    }
    const rough = (axis.to - axis.from) / count, ten = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = ten * [1, 2, 5, 10].find(times => ten * times >= rough * 0.999);
    for (let i = Math.ceil(axis.from / step - 1e-9); i * step <= axis.to * (1 + 1e-9); i += 1) found.push(i * step);
    return found;
  }

  function chart({ width, height, x, y, title }) {
    const right = width - RIGHT, bottom = height - BOTTOM, clip = "explorer-chart-" + (charts += 1);
    function placed(axis, low, high) {
      const at = axis.log ? Math.log10 : value => value, from = at(axis.from), to = at(axis.to);
      return value => low + (high - low) * (at(value) - from) / (to - from);
    }
    const px = placed(x, LEFT, right), py = placed(y, bottom, TOP);
    const inside = drawn("g", { "clip-path": `url(#${clip})` });
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, [
      drawn("clipPath", { id: clip },
        drawn("rect", { x: LEFT - 6, y: TOP - 6, width: right - LEFT + 12, height: bottom - TOP + 12 })),
    ]);
    ticksOf(x, width < 420 ? 3 : 5).forEach(value => svg.append(
      drawn("line", { class: "grid", x1: px(value), x2: px(value), y1: TOP, y2: bottom }),
      drawn("text", {
        x: px(value), y: bottom + 16, "text-anchor": px(value) > right - 20 ? "end" : "middle",
      }, x.show(value))));
    ticksOf(y, 4).forEach(value => svg.append(
      drawn("line", { class: "grid", x1: LEFT, x2: right, y1: py(value), y2: py(value) }),
      drawn("text", { x: LEFT - 6, y: py(value) + 4, "text-anchor": "end" }, y.show(value))));
    svg.append(
      drawn("text", { x: right, y: height - 6, "text-anchor": "end" }, x.label),
      drawn("text", { x: 0, y: 12 }, y.label), inside);
    if (title) svg.append(drawn("text", { x: right, y: 12, "text-anchor": "end" }, title));
    return {
      element: svg, x: px, y: py,
      line(points, color, dash) {
        inside.append(drawn("path", {
          d: points.map(([a, b], i) => `${i ? "L" : "M"}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join(""),
          fill: "none", stroke: color, "stroke-width": 2.5, "stroke-linejoin": "round", "stroke-dasharray": dash,
        }));
      },
      dot(a, b, color) {
        inside.append(drawn("circle", { cx: px(a), cy: py(b), r: 5, fill: color, stroke: "var(--aa-zero)" }));
      },
      // A straight line across the chart: at one x, or at one y.
      rule(axis, at, color, dash) {
        const across = axis === "x"
          ? { x1: px(at), x2: px(at), y1: TOP, y2: bottom } : { x1: LEFT, x2: right, y1: py(at), y2: py(at) };
        inside.append(drawn("line", { ...across, stroke: color, "stroke-width": 1.5, "stroke-dasharray": dash }));
      },
    };
  }

  // What the lines of a chart mean: [text, color, dash], as a list under it.
  function legend(entries) {
    return explorer.element("ul", { class: "explorer-legend" }, entries.map(([text, color, dash]) =>
      explorer.element("li", {}, [
        drawn("svg", { width: 28, height: 10, "aria-hidden": "true" }, drawn("line", {
          x1: 0, x2: 28, y1: 5, y2: 5, stroke: color, "stroke-width": 2.5, "stroke-dasharray": dash,
        })), text])));
  }

  // A number in a sentence: `shown` is read, `value` is what the page's test compares with Python's.
  function number(name, value, shown) {
    return explorer.element("data", { "data-name": name, value: value }, shown);
  }

  Object.assign(explorer, { drawn, atWidth, power, chart, legend, number });
})();
