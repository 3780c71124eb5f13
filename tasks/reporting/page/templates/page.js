"use strict";
(() => {
  const minus = (text) => text.replace("-", "−");
  const percent = (n) => (n === null ? "–" : (n / 10).toFixed(1) + "%");
  const points = (n) => (n === null ? "–" : minus((n < 0 ? "" : "+") + (n / 10).toFixed(1)));
  const place = (n, end) => Number(Math.min(Math.max(50 + (50 * n) / end, 0), 100).toPrecision(4));

  function show(box, data, at) {
    const row = (name, text) => (box.querySelector(name).textContent = text);
    row(".threshold", data.thresholds[at]);
    row(".flagged", percent(data.overall[0][at]));
    row(".missed", percent(data.overall[1][at]));
    box.querySelector("input").setAttribute("aria-valuetext", data.thresholds[at]);
    box.querySelectorAll("tbody tr").forEach((line, number) => {
      const rates = line.querySelectorAll(".rate");
      data.rows[number].forEach(([rate, from, to, value, low, high], side) => {
        rates[side].querySelector("b").textContent = percent(rate[at]);
        rates[side].querySelector("small").textContent =
          from[at] === null ? "" : `[${percent(from[at])}, ${percent(to[at])}]`;
        const cell = rates[side].nextElementSibling;
        if (!cell.classList.contains("gap")) return;
        const known = low[at] !== null;
        cell.querySelector("b").textContent = points(value[at]);
        cell.querySelector("small").textContent =
          known ? `[${points(low[at])}, ${points(high[at])}]` : "no interval";
        const line = cell.querySelector(".line");
        if (line && known) {
          line.setAttribute("d", `M${place(low[at], data.end)} 5H${place(high[at], data.end)}`);
        }
        const x = place(value[at], data.end);
        cell.querySelector(".dot").setAttribute(
          "d", `M${x} 5m-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0z`);
      });
    });
  }

  document.querySelectorAll(".explorer").forEach((box) => {
    const data = JSON.parse(box.querySelector("script").textContent);
    const slider = box.querySelector("input");
    box.querySelector(".controls").hidden = false;
    slider.addEventListener("input", () => show(box, data, Number(slider.value)));
    box.querySelectorAll("button").forEach((button) => {
      button.addEventListener("click", () => {
        slider.value = button.dataset.position;
        show(box, data, Number(slider.value));
      });
    });
  });

  // Paper shows what can be unfolded, also in browsers whose style sheets cannot say so; the long
  // sections of single candidates only if they are open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open], .onscreen, .part)")];
    closed.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
})();
