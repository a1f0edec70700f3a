// The script that makes the page of html.cpp interactive. It knows the classes that svg.cpp writes, and
// nothing else.
#pragma once

namespace tessera::draw {

// Bars, stripes and texts are moved one by one, so that nothing is stretched; paths are scaled with strokes
// kept.
inline constexpr char kPageScript[] = R"script("use strict";
(() => {
  const picture = document.getElementById("picture"), told = document.getElementById("told");
  const svg = picture.querySelector("svg"), plots = [...svg.querySelectorAll(".plot")];
  const left = +svg.dataset.left, width = +svg.dataset.width, end = +svg.dataset.end, unit = svg.dataset.unit;
  const number = (element, name) => +element.getAttribute(name);
  const make = (name, attributes, parent) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return parent.appendChild(element);
  };

  // What moves keeps its place at scale 1.
  const all = (selector) => plots.flatMap((plot) => [...plot.querySelectorAll(selector)]);
  const rects = all(".moves rect").map((element) => (
      {element, x: number(element, "x"), width: number(element, "width")}));
  const texts = all(".micro").map((element) => (
      {element, x: number(element, "x"), room: number(element, "data-room")}));
  const paths = all(".moves path");
  paths.forEach((path) => path.setAttribute("vector-effect", "non-scaling-stroke"));
  const axes = plots.map(
      (plot) => [...new Set([...plot.querySelectorAll(".tick")].map((tick) => number(tick, "y")))]);
  const lines = svg.querySelectorAll(".grid");
  make("rect", {x: left, y: 0, width, height: svg.viewBox.baseVal.height},
      make("clipPath", {id: "plot-area"}, svg));
  all(".moves").forEach((group) => group.setAttribute("clip-path", "url(#plot-area)"));

  const words = new Map();  // of each bar; the viewer's own hint would stand in the way
  all(".bar").forEach((bar) => {
    const title = bar.querySelector("title");
    words.set(bar, title.textContent);
    title.remove();
  });
  const rows = all(".moves").map((row) => [...row.querySelectorAll(".bar")])
      .filter((bars) => bars.length > 0);

  // offset: what lies left of the plot, in pixels at scale 1
  let scale = 1, offset = 0, waiting = false, chosen = null;
  const place = (x) => left + (x - left - offset) * scale;

  const tick_step = (range, most) => {
    const power = 10 ** Math.floor(Math.log10(range / most));
    return power * ([1, 2, 5].find((factor) => range / (power * factor) <= most) || 10);
  };
  const time_text = (time, step) => {
    if (!unit) return String(+time.toPrecision(10));
    const size = Math.max(time, step);
    const [factor, name] = size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e3, "ms"] : [1e6, "us"];
    return `${+(time * factor).toPrecision(10)} ${name}`;
  };
  const draw_axes = () => {
    const step = tick_step(end / scale, width / 64);
    const first = Math.ceil(offset / width * end / step - 1e-9),
        last = Math.floor((offset / width + 1 / scale) * end / step + 1e-9);
    plots.forEach((plot, i) => {
      plot.querySelectorAll(".tick").forEach((tick) => tick.remove());
      let path = "";
      const [, top, bottom] = /^M[\d.]+ ([\d.]+)V([\d.]+)/.exec(lines[i].getAttribute("d")) || [];
      for (let n = first; n <= last; ++n) {
        const x = place(left + n * step / end * width);
        axes[i].forEach((y) => make("text", {class: "tick", x, y}, plot).textContent =
            time_text(n * step, step));
        path += `M${x} ${top}V${bottom}`;
      }
      if (path) lines[i].setAttribute("d", path);
    });
  };
  const update = () => {
    waiting = false;
    rects.forEach(({element, x, width}) => {
      element.setAttribute("x", place(x));
      element.setAttribute("width", width * scale);
      element.classList.toggle("edged", width * scale > 4 && element.classList.contains("bar"));
    });
    texts.forEach(({element, x, room}) => {
      element.setAttribute("x", place(x));
      const digits = element.textContent.length;
      const fits = (font) => digits * 0.64 * font + 2 <= room * scale;
      element.classList.toggle("small", !fits(11));
      element.classList.toggle("no-room", !fits(8));
    });
    const move = `matrix(${scale} 0 0 1 ${left - (left + offset) * scale} 0)`;
    paths.forEach((path) => { if (!path.classList.contains("grid")) path.setAttribute("transform", move); });
    draw_axes();
  };
  const look = (new_scale, new_offset) => {
    scale = Math.min(Math.max(new_scale, 1), 2000);
    offset = Math.min(Math.max(new_offset, 0), width - width / scale);
    if (!waiting) requestAnimationFrame(update);
    waiting = true;
  };
  const zoom = (factor, at) => {  // the moment under `at` stays
    const next = Math.min(Math.max(scale * factor, 1), 2000);
    look(next, offset + (at - left) / scale - (at - left) / next);
  };

  const in_svg = (event) => {
    const box = svg.getBoundingClientRect();
    return (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
  };
  const tell = (bar, x, y) => {
    if (chosen) chosen.classList.remove("chosen");
    chosen = bar;
    told.textContent = bar ? words.get(bar).replaceAll("; ", "\n") : "";
    if (!bar) return;
    bar.classList.add("chosen");
    const box = told.getBoundingClientRect();
    const across = Math.min(x + 14, innerWidth - box.width - 8),
        down = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
    told.style.transform = `translate(${Math.max(across, 8)}px, ${Math.max(down, 8)}px)`;
  };
  const choose = (bar) => {
    const {x, width: wide} = rects.find((rect) => rect.element === bar);
    const centre = x + wide / 2 - left, shown = width / scale;
    if (centre < offset || centre > offset + shown) look(scale, centre - shown / 2);
    bar.scrollIntoView({block: "nearest"});
    const box = bar.getBoundingClientRect();
    tell(bar, Math.min(Math.max(box.left, 0), innerWidth), box.bottom);
  };
  const go = (across, down) => {
    const row = rows.findIndex((bars) => bars.includes(chosen));
    if (row < 0) return choose(rows[0][0]);
    if (across) {
      const at = rows[row].indexOf(chosen) + across;
      return choose(rows[row][Math.min(Math.max(at, 0), rows[row].length - 1)]);
    }
    const next = rows[Math.min(Math.max(row + down, 0), rows.length - 1)], x = number(chosen, "x");
    const distance = (bar) => Math.abs(number(bar, "x") - x);
    choose(next.reduce((best, bar) => distance(bar) < distance(best) ? bar : best));
  };

  const keys = {
    "+": () => zoom(1.5, left + width / 2), "=": () => zoom(1.5, left + width / 2),
    "-": () => zoom(1 / 1.5, left + width / 2),
    "[": () => look(scale, offset - width / scale / 4), "]": () => look(scale, offset + width / scale / 4),
    "0": () => look(1, 0), "Home": () => look(1, 0), "Escape": () => tell(null),
    "ArrowLeft": () => go(-1, 0), "ArrowRight": () => go(1, 0), "ArrowUp": () => go(0, -1),
    "ArrowDown": () => go(0, 1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.querySelectorAll("button").forEach(
      (button) => button.addEventListener("click", () => keys[button.dataset.key]()));

  const over_plot = (event) => event.target.closest && event.target.closest(".plot");
  svg.addEventListener("wheel", (event) => {
    if (!over_plot(event) || event.shiftKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) look(scale, offset + event.deltaX / scale);
    else zoom(Math.exp(-event.deltaY / 400), in_svg(event));
  }, {passive: false});
  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    const plot = over_plot(event);
    if (plot) drag = {plot, x: in_svg(event), offset};
  });
  addEventListener("pointermove", (event) => {
    if (!drag) return;
    drag.plot.classList.add("dragged");
    look(scale, drag.offset - (in_svg(event) - drag.x) / scale);
  });
  addEventListener("pointerup", () => {
    if (drag) drag.plot.classList.remove("dragged");
    drag = null;
  });
  svg.addEventListener("pointerover", (event) => {
    if (!drag) tell(event.target.classList.contains("bar") ? event.target : null,
        event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", () => tell(null));
})();
)script";

}  // namespace tessera::draw
