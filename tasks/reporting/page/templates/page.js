"use strict";
(() => {
  const minus = (text) => text.replace("-", "−");
  const tenth = (n) => (n / 10).toFixed(1);
  const percent = (n) => (n === null ? "–" : `${tenth(n)}%`);
  const points = (n) => (n === null ? "–" : minus((n < 0 ? "" : "+") + tenth(n)));
  const between = (low, high) => `[${low}, ${high}]`;
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
          from[at] === null ? "" : between(percent(from[at]), percent(to[at]));
        const cell = rates[side].nextElementSibling;
        if (!cell.classList.contains("gap")) return;
        const known = low[at] !== null;
        cell.querySelector("b").textContent = points(value[at]);
        cell.querySelector("small").textContent =
          known ? between(points(low[at]), points(high[at])) : "no interval";
        const line = cell.querySelector(".i");
        if (line && known) {
          line.setAttribute("d", `M${place(low[at], data.end)} 5H${place(high[at], data.end)}`);
        }
        cell.querySelector(".d").setAttribute("cx", place(value[at], data.end));
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

  const rows = document.querySelector("#metrics form");
  const tables = [...document.querySelectorAll("#metrics .grid")];
  const current = () => {
    const part = rows.querySelector(".part");
    return tables.find((table) => !part || table.id === part.value);
  };
  const readName = (row) => row.querySelector("th bdi").textContent;

  function filter() {
    const name = rows.querySelector(".name").value.trim().toLowerCase();
    const kind = rows.querySelector(".kind").value;
    tables.forEach((table) => table.querySelectorAll("tbody tr").forEach((row) => {
      row.hidden = !readName(row).toLowerCase().includes(name) || (kind && !row.classList.contains(kind));
    }));
    const all = [...current().querySelectorAll("tbody tr")];
    const n = all.filter((row) => !row.hidden).length;
    rows.querySelector("output").textContent = `${n} of ${all.length} identities`;
  }

  const plain = (text) => text.replaceAll("−", "-");
  const number = (text) => Number(plain(text));
  const ends = (cell) => cell.querySelector("b ~ small")?.textContent.match(/\[(\S+), (\S+)\]/);
  const add = (svg, tag, kind, key, text) => {
    const shape = document.createElementNS("http:" + "//www.w3.org/2000/svg", tag);
    shape.setAttribute("class", kind);
    shape.setAttribute(key, text);
    svg.append(shape);
  };

  // Draw the cells of folded tables, as the open table was drawn.
  function draw(cell, head) {
    const value = cell.querySelector("b");
    if (!value) return;
    const { from, to, limits } = head.dataset;
    const at = (text) => {
      const share = (number(text) - from) / (to - from);
      return String(Number((100 * Math.min(Math.max(share, 0), 1)).toPrecision(3)));
    };
    cell.querySelector("svg")?.remove();
    const svg = document.createElementNS("http:" + "//www.w3.org/2000/svg", "svg");
    svg.setAttribute("aria-hidden", "true");
    for (const limit of limits.split(" ").filter(Boolean)) add(svg, "path", "l", "d", `M${at(limit)} 0v10`);
    const [, low, high] = ends(cell) ?? [];
    if (low) add(svg, "path", "i", "d", `M${at(low)} 5H${at(high)}`);
    if (cell.dataset.r) add(svg, "circle", "c", "cx", at(cell.dataset.r));
    const place = at(value.textContent);
    const is = (kinds) => kinds.test(cell.className);
    if (is(/\b(fail|error|warn)\b/)) add(svg, "path", "d", "d", `M${place} 1l4 4-4 4-4-4z`);
    else if (is(/\b(insufficient|small)\b/) || !low) add(svg, "path", "d q", "d", `M${place} 3m-2 0h4v4h-4z`);
    else add(svg, "circle", "d", "cx", place);
    cell.append(svg);
  }

  const cells = (table, act) => table.querySelectorAll("tbody tr").forEach((row) => {
    [...row.cells].slice(1).forEach((cell, at) => act(cell, table.tHead.rows[0].cells[at + 1], row, at + 1));
  });

  function showRival() {
    const chosen = rows.querySelector(".rival").value;
    const other = document.getElementById(chosen);
    const known = new Map();
    if (other) other.querySelectorAll("tbody tr").forEach((row) => known.set(readName(row), row));
    const ring = document.querySelector("#metrics .ring");
    if (ring) {
      ring.dataset.own ??= ring.textContent;
      ring.textContent = chosen ? rows.querySelector(".rival").selectedOptions[0].text : ring.dataset.own;
    }
    tables.forEach((table) => cells(table, (cell, head, row, at) => {
      cell.dataset.own ??= cell.dataset.r ?? "";
      const rival = known.get(readName(row))?.cells[at]?.querySelector("b");
      const isChosen = chosen && table === current();
      cell.dataset.r = isChosen ? rival?.textContent ?? "" : cell.dataset.own;
      const change = cell.querySelector("em");
      if (change) change.hidden = Boolean(isChosen);
      draw(cell, head);
    }));
  }

  function offerRivals() {
    const set = rows.querySelector(".part").selectedOptions[0].dataset.set;
    const rival = rows.querySelector(".rival");
    [...rival.options].forEach((option) => {
      option.hidden = option.disabled = Boolean(option.value) && option.dataset.set !== set;
    });
    rival.value = "";
    showRival();
  }

  function sort(table, at, button) {
    const body = table.tBodies[0];
    body.first ??= [...body.rows];
    const now = button.parentElement.getAttribute("aria-sort");
    table.querySelectorAll("thead th").forEach((head) => head.removeAttribute("aria-sort"));
    const to = { ascending: "descending", descending: null }[now] ?? (now ? null : "ascending");
    if (to) button.parentElement.setAttribute("aria-sort", to);
    const value = (row) => {
      if (at === 0) return readName(row);
      const text = row.cells[at]?.querySelector("b")?.textContent;
      return text === undefined ? Infinity : number(text);
    };
    const sign = to === "descending" ? -1 : 1;
    const order = (a, b) => (at ? value(a) - value(b) || 0 : value(a).localeCompare(value(b)));
    const sorted = to ? [...body.first].sort((a, b) => sign * order(a, b)) : body.first;
    body.append(...sorted);
  }

  function csv(table) {
    const quoted = (text) => {
      const hyphened = text.replace("−", "-");
      const harmless = /^[+-](\d*\.?\d*(e[+-]?\d+)?|[\d.-]*[a-z_][\w.-]*)$/i;
      const isFormula = /^\s*[=+@\t\r-]/.test(hyphened) && !harmless.test(hyphened);
      const safe = isFormula || hyphened.startsWith("'") ? `'${hyphened}` : hyphened;
      return `"${safe.replaceAll('"', '""')}"`;
    };
    const heads = [...table.tHead.rows[0].cells].slice(1).map((head) => head.dataset.name);
    const columns = heads.flatMap((one) => [one, `${one} low`, `${one} high`, `${one} other`]);
    const lines = [["identity", "n", ...columns]];
    [...table.tBodies[0].rows].filter((row) => !row.hidden).forEach((row) => {
      const n = row.querySelector("th small").textContent.replace(/\D/g, "");
      const numbers = [...row.cells].slice(1).flatMap((cell) => {
        const [, low = "", high = ""] = ends(cell) ?? [];
        const texts = [cell.querySelector("b")?.textContent ?? "", low, high, cell.dataset.r ?? ""];
        return texts.map(plain);
      });
      lines.push([readName(row), n, ...numbers]);
    });
    return lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  }

  function copy(text) {
    const box = document.body.appendChild(document.createElement("textarea"));
    box.value = text;
    box.select();
    document.execCommand("copy");
    box.remove();
  }

  function save(text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = "identities.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  if (rows) {
    rows.hidden = false;
    tables.filter((table) => !table.querySelector("svg")).forEach((table) => cells(table, draw));
    rows.addEventListener("submit", (event) => event.preventDefault());
    rows.addEventListener("input", filter);
    rows.querySelector(".rival")?.addEventListener("input", showRival);
    rows.querySelector(".part")?.addEventListener("input", () => {
      tables.forEach((table) => { table.closest("details").open = table === current(); });
      offerRivals();
    });
    if (rows.querySelector(".rival")) offerRivals();
    const say = (text) => { rows.querySelector("output").textContent = text; };
    rows.querySelector(".copy").addEventListener("click", () => { copy(csv(current())); say("copied"); });
    rows.querySelector(".save").addEventListener("click", () => save(csv(current())));
    tables.forEach((table) => table.querySelectorAll("thead th").forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.dataset.name = head.firstChild.textContent;
      button.title = "sort";
      head.firstChild.replaceWith(button);
      button.addEventListener("click", () => sort(table, at, button));
    }));
  }
})();
