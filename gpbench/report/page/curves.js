// Curves over training time, drawn as SVG: drag to zoom, switch methods off, read values at the pointer.
// Text goes in through textContent and setAttribute alone, so that no name can become markup.
"use strict";
(() => {
  const block = document.getElementById("chart-data");
  const place = document.getElementById("charts");
  if (!block || !place) return;
  const data = JSON.parse(block.textContent);
  const NS = "http://www.w3.org/2000/svg";
  const MARGIN = { left: 52, right: 10, top: 8, bottom: 36 };
  const looks = new Map(data.methods.map((each) => [each.label, each]));
  const hidden = new Set();
  let metric = Object.keys(data.metrics)[0];

  const svg = (name, attributes, parent) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.append(made);
    return made;
  };
  const html = (name, parent, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const finite = (value) => value !== null && Number.isFinite(value);
  const digits = (value) => (value === 0 ? "0" : String(Number(value.toPrecision(3))));

  function ticks(low, high) {
    const raw = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw);
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-12) + 1e-12; at += 1) found.push(at * step);
    return found;
  }
  function timeTicks(low, high) {
    const span = high - low;
    const factors = span < 1 ? [1, 2, 3, 4, 5, 7] : span < 2 ? [1, 2, 5] : span < 3.5 ? [1, 3] : [1];
    const every = Math.max(1, Math.round(span / 6));
    const found = [];
    for (let decade = Math.floor(low); decade <= Math.ceil(high); decade += 1)
      if (decade % every === 0) for (const factor of factors) found.push(Math.log10(factor) + decade);
    const inside = found.filter((each) => each >= low && each <= high);
    return inside.length > 1 ? inside.map((each) => 10 ** each) : ticks(10 ** low, 10 ** high);
  }
  const label = (value) => String(Number(value.toPrecision(6)));

  // The limits of all that is shown: time as it is, values from the lowest up to what most of the curves reach.
  function limits(curves) {
    const times = curves.flatMap((each) => [each.seconds[0], each.seconds[each.seconds.length - 1]]);
    let left = Math.log10(Math.min(...times)), right = Math.log10(Math.max(...times));
    if (right - left < 0.5) [left, right] = [(left + right) / 2 - 0.25, (left + right) / 2 + 0.25];
    const all = curves.map((each) => each[metric].filter(finite)).filter((each) => each.length);
    if (!all.length) return { left, right, low: 0, high: 1 };
    const low = Math.min(...all.flat());
    const ends = all.map((each) => each[each.length - 1]);
    const tops = all.map((each) => [...each].sort((a, b) => a - b)[Math.floor(0.9 * (each.length - 1))]);
    const reach = low + 4 * Math.max(Math.min(...tops) - low, 0.5 * Math.max(Math.abs(low), 0.01));
    let high = Math.max(...tops, ...ends);
    high = Math.min(high, reach);
    if (high - low < 1e-9) high = low + 0.05 * Math.max(Math.abs(low), 0.1);
    const room = 0.06 * (high - low);
    return { left: left - 0.02, right: right + 0.02, low: low >= 0 ? Math.max(low - room, 0) : low - room, high: high + room };
  }

  // The value that the drawn line has at a time: straight between two looks on the axis of log time. Before the first
  // look there is none, nor after the last, unless a single look stands for all that comes after it.
  function at(curve, seconds) {
    const known = curve.seconds.map((time, i) => [time, curve[metric][i]]).filter((each) => finite(each[1]));
    if (!known.length || seconds < known[0][0]) return null;
    if (known.length === 1) return known[0][1];
    const next = known.findIndex((each) => each[0] >= seconds);
    if (next < 0) return null;
    if (next === 0 || known[next][0] === seconds) return known[next][1];
    const [[s0, v0], [s1, v1]] = [known[next - 1], known[next]];
    return v0 + ((v1 - v0) * Math.log(seconds / s0)) / Math.log(s1 / s0);
  }

  function chart(content, number) {
    const box = html("div", place);
    box.className = "chart";
    const head = html("h3", box, content.title);
    html("small", head, content.split);
    const buttons = html("span", head);
    buttons.className = "buttons";
    const root = svg("svg", { role: "img", "aria-label": `${content.title}: curves over training time` }, box);
    const tip = html("div", box);
    tip.className = "tip";
    const where = html("small", box, content.cpu);
    where.className = "where";
    let view = null;
    let drag = null;
    let size = { width: 0, height: 0 };
    const shown = () => content.curves.filter((each) => !hidden.has(each.method));
    const x = (seconds) => MARGIN.left + ((Math.log10(seconds) - view.left) / (view.right - view.left)) * inner().width;
    const y = (value) => MARGIN.top + ((view.high - value) / (view.high - view.low)) * inner().height;
    const inner = () => ({ width: size.width - MARGIN.left - MARGIN.right, height: size.height - MARGIN.top - MARGIN.bottom });
    const back = (px, py) => ({
      time: view.left + ((px - MARGIN.left) / inner().width) * (view.right - view.left),
      value: view.high - ((py - MARGIN.top) / inner().height) * (view.high - view.low),
    });

    function zoom(factor) {
      const middle = (view.left + view.right) / 2, centre = (view.low + view.high) / 2;
      view = {
        left: middle + (view.left - middle) * factor, right: middle + (view.right - middle) * factor,
        low: centre + (view.low - centre) * factor, high: centre + (view.high - centre) * factor,
      };
      draw();
    }
    for (const [text, name, act] of [
      ["+", "zoom in", () => zoom(0.6)], ["−", "zoom out", () => zoom(1 / 0.6)], ["reset", "show all", () => reset()],
    ]) {
      const button = html("button", buttons, text);
      button.type = "button";
      button.title = name;
      button.setAttribute("aria-label", `${name}: ${content.title}`);
      button.addEventListener("click", act);
    }
    function reset() {
      view = limits(shown().length ? shown() : content.curves);
      draw();
    }
    function axes() {
      const bottom = MARGIN.top + inner().height, right = MARGIN.left + inner().width;
      for (const tick of ticks(view.low, view.high)) {
        svg("line", { x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick), stroke: "#e3e3e3" }, root);
        svg("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, root).textContent = label(tick);
      }
      let last = -Infinity;
      for (const tick of timeTicks(view.left, view.right)) {
        svg("line", { x1: x(tick), x2: x(tick), y1: MARGIN.top, y2: bottom, stroke: "#e3e3e3" }, root);
        if (x(tick) - last < 34) continue;
        last = x(tick);
        svg("text", { x: x(tick), y: bottom + 15, "text-anchor": "middle" }, root).textContent = label(tick);
      }
      svg("path", { d: `M${MARGIN.left},${MARGIN.top}V${bottom}H${right}`, fill: "none", stroke: "#4d4d4d" }, root);
      svg("text", { x: right, y: bottom + 31, "text-anchor": "end" }, root).textContent = "training time (s)";
      svg("text", { x: MARGIN.left, y: bottom + 31 }, root).textContent = data.metrics[metric];
    }
    function draw() {
      const width = Math.max(box.clientWidth, 200);
      size = { width, height: Math.round(Math.min(Math.max(0.68 * width, 210), 340)) };
      root.replaceChildren();
      root.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
      root.setAttribute("font-size", "11.5");
      root.setAttribute("fill", "#4d4d4d");
      const clip = svg("clipPath", { id: `clip-${number}` }, svg("defs", {}, root));
      svg("rect", { x: MARGIN.left, y: MARGIN.top, width: inner().width, height: inner().height }, clip);
      axes();
      const group = svg("g", { "clip-path": `url(#clip-${number})` }, root);
      for (const curve of shown()) line(curve, group);
    }
    function line(curve, group) {
      const look = looks.get(curve.method);
      const band = curve[`${metric}_band`];
      const points = curve.seconds.map((seconds, i) => [seconds, curve[metric][i], band ? band[i] : null])
        .filter((each) => finite(each[1]));
      if (!points.length) return;
      const banded = points.filter((each) => finite(each[2]));
      if (banded.length > 1) {
        const upper = banded.map(([s, mean, half]) => `${x(s)},${y(mean + half)}`);
        const lower = banded.map(([s, mean, half]) => `${x(s)},${y(mean - half)}`).reverse();
        svg("polygon", { points: [...upper, ...lower].join(" "), fill: look.color, opacity: 0.15 }, group);
      }
      const path = points.map(([s, mean]) => `${x(s)},${y(mean)}`);
      const only = points.length === 1;
      if (only) path.push(`${MARGIN.left + inner().width},${y(points[0][1])}`);
      svg("polyline", {
        points: path.join(" "), fill: "none", stroke: look.color, "stroke-width": 2, "data-method": curve.method,
        "stroke-dasharray": only ? "5 3" : look.dash,
      }, group);
      const [seconds, value] = points[points.length - 1];
      svg("circle", { cx: x(seconds), cy: y(value), r: 3.2, fill: look.color }, group);
    }
    const position = (event) => {
      const bounds = root.getBoundingClientRect();
      const scale = size.width / bounds.width;
      return [(event.clientX - bounds.left) * scale, (event.clientY - bounds.top) * scale];
    };
    root.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = position(event);
      try { root.setPointerCapture(event.pointerId); } catch { /* a pointer that has gone cannot be captured */ }
    });
    root.addEventListener("pointermove", (event) => {
      const [px, py] = position(event);
      root.querySelector(".mark")?.remove();
      if (drag) {
        tip.style.display = "none";
        svg("rect", {
          class: "mark", x: Math.min(px, drag[0]), y: Math.min(py, drag[1]), width: Math.abs(px - drag[0]),
          height: Math.abs(py - drag[1]), fill: "#0072b2", opacity: 0.15,
        }, root);
      } else read(px, py);
    });
    root.addEventListener("pointerup", (event) => {
      const [px, py] = position(event);
      root.querySelector(".mark")?.remove();
      if (drag && Math.abs(px - drag[0]) > 12) {
        const a = back(Math.min(px, drag[0]), Math.min(py, drag[1])), b = back(Math.max(px, drag[0]), Math.max(py, drag[1]));
        const flat = Math.abs(py - drag[1]) <= 12; // a finger that goes sideways enlarges the time alone
        view = { left: a.time, right: b.time, low: flat ? view.low : b.value, high: flat ? view.high : a.value };
        draw();
      }
      drag = null;
    });
    root.addEventListener("pointercancel", () => { drag = null; root.querySelector(".mark")?.remove(); });
    root.addEventListener("pointerleave", () => { if (!drag) { tip.style.display = "none"; root.querySelector(".mark")?.remove(); } });
    root.addEventListener("dblclick", reset);
    function read(px, py) {
      const inside = px > MARGIN.left && px < MARGIN.left + inner().width && py < MARGIN.top + inner().height;
      if (!inside) { tip.style.display = "none"; return; }
      const seconds = 10 ** back(px, py).time;
      svg("line", { class: "mark", x1: px, x2: px, y1: MARGIN.top, y2: MARGIN.top + inner().height, stroke: "#8c8c8c" }, root);
      tip.replaceChildren();
      html("div", tip, `${digits(seconds)} s`);
      for (const curve of shown()) {
        const value = at(curve, seconds);
        if (!finite(value)) continue;
        const row = html("div", tip, `${curve.method}: ${value.toFixed(4)}`);
        row.style.color = looks.get(curve.method).color;
      }
      tip.style.display = "block";
      // Beside the pointer, on the side that has room; an SVG has no offsetTop, so both boxes are measured on the screen.
      const outer = box.getBoundingClientRect(), picture = root.getBoundingClientRect(), own = tip.getBoundingClientRect();
      const scale = picture.width / size.width;
      const left = picture.left - outer.left + px * scale, top = picture.top - outer.top + py * scale;
      const right = px > size.width / 2 ? left - own.width - 12 : left + 12;
      tip.style.left = `${Math.min(Math.max(right, 0), Math.max(outer.width - own.width, 0))}px`;
      tip.style.top = `${Math.min(Math.max(top - own.height / 2, 0), Math.max(outer.height - own.height, 0))}px`;
    }
    reset();
    return { draw, reset };
  }

  const controls = document.getElementById("chart-controls");
  const select = html("select", html("label", controls, "show "));
  for (const [name, text] of Object.entries(data.metrics)) html("option", select, text).value = name;
  const drawn = [];
  for (const look of data.methods) {
    const holder = html("label", controls);
    const box = html("input", holder);
    box.type = "checkbox";
    box.checked = true;
    box.dataset.method = look.label;
    const sample = svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, holder);
    svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: look.color, "stroke-width": 2.5, "stroke-dasharray": look.dash }, sample);
    html("span", holder, look.label);
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(look.label); else hidden.add(look.label);
      for (const each of drawn) each.draw();
    });
  }
  data.charts.forEach((content, number) => drawn.push(chart(content, number)));
  for (const each of drawn) each.draw(); // as wide as they are once all of them stand
  select.addEventListener("change", () => {
    metric = select.value;
    for (const each of drawn) each.reset();
  });
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    for (const each of drawn) each.draw();
  }).observe(place);
})();
