// Plots with axes, as SVG. One unit is one pixel, so that texts are as large on a phone as on a desk.
import { compact, count, element } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const [LEFT, RIGHT, TOP, FOOT] = [46, 8, 10, 22];
const HEIGHT = 150;

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function frame(width, label) {
  return drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": label });
}

/** The smallest of 1, 2, 5, 10, 20, … that is not below the value. */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/** A vertical axis: `y` places a value, `ticks` are [value, name]. */
function drawVertical(svg, width, y, ticks) {
  for (const [value, name] of ticks) {
    svg.append(drawn("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(drawn("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, name));
  }
}

/** Names below the plot, as many as there is room for. */
function drawHorizontal(svg, width, x, ticks) {
  const room = Math.max(2, Math.floor((width - LEFT - RIGHT) / 56));
  const every = Math.max(1, Math.ceil(ticks.length / room));
  ticks.forEach(([value, name], index) => {
    if (index % every > 0) return;
    svg.append(drawn("line", { class: "axis", x1: x(value), x2: x(value), y1: HEIGHT - FOOT, y2: HEIGHT - FOOT + 4 }));
    // The last name would be cut off at the edge.
    const anchor = x(value) > width - 22 ? "end" : "middle";
    const across = anchor === "end" ? width - 1 : x(value);
    svg.append(drawn("text", { x: across, y: HEIGHT - 5, "text-anchor": anchor }, name));
  });
  svg.append(drawn("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: HEIGHT - FOOT, y2: HEIGHT - FOOT }));
}

const clock = (seconds) => {
  const date = new Date(1000 * seconds);
  return [date.getHours(), date.getMinutes()].map((value) => String(value).padStart(2, "0")).join(":");
};

/** Full minutes within the time that is shown, some six of them. */
function minutes(start, end) {
  const step = 60 * [1, 2, 5, 10, 15].find((minutes) => (end - start) / (60 * minutes) <= 6.5);
  const ticks = [];
  for (let time = Math.ceil(start / step) * step; time <= end; time += step) ticks.push([time, clock(time)]);
  return ticks;
}

function legend(series) {
  const entries = series.map(({ name, style, note }) =>
    element("span.legend", element(`i.${style}`), note ? `${name}: ${note}` : name),
  );
  return element("p.legends", ...entries);
}

/** A plot in its place: legend above, picture below. */
function put(place, series, draw) {
  const width = Math.max(220, Math.floor(place.clientWidth));
  place.replaceChildren(legend(series), draw(width));
}

/**
 * Values over time. `series` has {name, style, note, values}; a value is a number, or null for none.
 * `logarithmic` is for times, which differ by powers of ten.
 */
export function overTime(place, { label, start, step, series, name = compact, logarithmic = false }) {
  put(place, series, (width) => {
    const values = series.flatMap((one) => one.values).filter((value) => value !== null);
    const length = Math.max(...series.map((one) => one.values.length));
    const end = start + step * length;
    const x = (time) => LEFT + ((width - LEFT - RIGHT) * (time - start)) / (end - start);
    const up = HEIGHT - FOOT - TOP;
    let y, ticks;
    if (logarithmic) {
      const top = Math.ceil(Math.log10(Math.max(1000, ...values)));
      const low = 1;
      y = (value) => HEIGHT - FOOT - (up * (Math.log10(Math.max(10 ** low, value)) - low)) / (top - low);
      ticks = Array.from({ length: top - low + 1 }, (_, index) => [10 ** (low + index), name(10 ** (low + index))]);
    } else {
      const top = round(Math.max(1, ...values));
      y = (value) => HEIGHT - FOOT - (up * value) / top;
      ticks = [0, top / 2, top].map((value) => [value, name(value)]);
    }
    const svg = frame(width, label);
    drawVertical(svg, width, y, ticks);
    drawHorizontal(svg, width, x, minutes(start, end));
    for (const { values, style } of series) {
      let path = "";
      values.forEach((value, index) => {
        if (value === null) return;
        const after = index > 0 && values[index - 1] !== null;
        const [across, high] = [x(start + step * (index + 0.5)), y(value)].map((it) => it.toFixed(1));
        // A value alone is a dot: a line of no length with round ends.
        path += after ? `L${across} ${high}` : `M${across} ${high}h0`;
      });
      svg.append(drawn("path", { class: `line ${style}`, d: path }));
    }
    return svg;
  });
}

/** Requests by score, from 0; the last bar has all above. A line marks where blocking begins. */
export function scores(place, counts, threshold, label) {
  const most = Math.max(1, ...counts);
  const high = counts.reduce((last, many, score) => (many > 0 ? score : last), 0);
  const last = Math.min(counts.length - 1, Math.max(high, (threshold ?? 0) + 2, 12));
  const series = [
    { name: "Below the threshold", style: "allowed" },
    { name: `Blocks from ${threshold}`, style: "blocked" },
  ].slice(0, threshold === null ? 1 : 2);
  put(place, threshold === null ? [{ name: "Requests", style: "allowed" }] : series, (width) => {
    const svg = frame(width, label);
    const wide = (width - LEFT - RIGHT) / (last + 1);
    const x = (score) => LEFT + wide * (score + 0.5);
    // Most requests score 0: without a logarithm nothing else would show.
    const top = Math.ceil(Math.log10(most + 1)) || 1;
    const y = (many) => HEIGHT - FOOT - ((HEIGHT - FOOT - TOP) * (many < 1 ? 0 : Math.log10(many) + 0.3)) / (top + 0.3);
    const powers = Array.from({ length: top + 1 }, (_, power) => [10 ** power, compact(10 ** power)]);
    drawVertical(svg, width, y, powers);
    const name = (score) => (score === counts.length - 1 ? `${score}+` : String(score));
    const ticks = Array.from({ length: last + 1 }, (_, score) => [score, name(score)]);
    drawHorizontal(svg, width, x, ticks.filter(([score]) => last < 15 || score % 5 === 0));
    counts.slice(0, last + 1).forEach((many, score) => {
      if (many === 0) return;
      const style = threshold !== null && score >= threshold ? "blocked" : "allowed";
      const bar = drawn("rect", {
        class: `bar ${style}`, x: x(score) - wide / 2 + 1, width: Math.max(1, wide - 2), y: y(many), height: HEIGHT - FOOT - y(many),
      });
      bar.append(drawn("title", {}, `Score ${name(score)}: ${count(many)}`));
      svg.append(bar);
    });
    if (threshold !== null && threshold <= last) {
      const across = x(threshold) - wide / 2;
      svg.append(drawn("line", { class: "threshold", x1: across, x2: across, y1: TOP - 4, y2: HEIGHT - FOOT }));
    }
    return svg;
  });
}

/** How a score adds up: a part for each rule, and the threshold as a line. */
export function sum(parts, total, threshold, width, label) {
  const [height, head] = [46, 16];
  const most = Math.max(total, threshold ?? 0, 1);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  const x = (points) => 1 + ((width - 2) * points) / most;
  let sofar = 0;
  for (const [rule, points] of parts) {
    const wide = x(sofar + points) - x(sofar);
    svg.append(drawn("rect", { class: "bar blocked", x: x(sofar), y: head, width: Math.max(1, wide - 2), height: height - head - 2 }));
    if (wide > 74) {
      svg.append(drawn("text", { class: "on", x: x(sofar) + wide / 2 - 1, y: height - 11, "text-anchor": "middle" }, `${rule} +${points}`));
    }
    sofar += points;
  }
  if (threshold !== null) {
    const across = Math.min(x(threshold), width - 1);
    svg.append(drawn("line", { class: "threshold", x1: across, x2: across, y1: 0, y2: height }));
    const right = across > width / 2;
    const place = { x: across + (right ? -5 : 5), y: 11, "text-anchor": right ? "end" : "start" };
    svg.append(drawn("text", place, `blocks from ${threshold}`));
  }
  return svg;
}
