"use strict";
// Draws the charts, and makes the table of all tests sortable and filterable. Everything that is
// said here is also in the page without it.
(() => {
  const views = new Map();
  const root = document.documentElement;

  // How charts look stands in their specifications. Colours are CSS variables, so themes and
  // printing need no new drawing.
  const font = getComputedStyle(document.body).fontFamily;

  // What a legend's entry takes beside its name, in pixels, what lies between two entries, and the
  // vertical axis, because legends begin where it stands.
  const symbol = 34, gap = 14, axis = 90;
  const pen = document.createElement("canvas").getContext("2d");

  // Gives the legends in a part of a specification as many columns as their widest name leaves
  // room for, so that none is cut while it fits on a line of its own.
  function fitLegends(part, width) {
    if (typeof part !== "object" || part === null) return;
    if (part.legend && Array.isArray(part.scale?.domain)) {
      const beside = symbol + (part.legend.labelOffset ?? 0);
      const labelLimit = width - beside;
      const widths = part.scale.domain.map((name) => pen.measureText(name).width);
      const widest = Math.min(labelLimit, Math.max(...widths));
      const columns = Math.max(1, Math.floor((width + gap) / (widest + beside + gap)));
      Object.assign(part.legend, { columns, labelLimit });
    }
    for (const [name, inner] of Object.entries(part)) {
      if (name !== "data" && name !== "config") fitLegends(inner, width);
    }
  }

  async function draw() {
    const specs = JSON.parse(document.getElementById("specs")?.textContent ?? "{}");
    for (const [id, spec] of Object.entries(specs)) {
      const place = document.getElementById(id);
      pen.font = `${spec.config.legend.labelFontSize}px ${font}`;
      fitLegends(spec, place.clientWidth - axis);
      const options = {
        actions: false, ast: true, renderer: "svg", mode: "vega-lite", defaultStyle: false,
        tooltip: { disableDefaultStyle: true }, config: { font },
      };
      const whole = { width: "container", autosize: { type: "fit-x", contains: "padding" }, ...spec };
      try {
        const result = await vegaEmbed(place, whole, options);
        views.set(id, result.view);
      } catch (error) {
        console.error(`chart ${id}:`, error);
        place.textContent = "This chart could not be drawn; its table has the figures.";
      }
    }
    for (const button of document.querySelectorAll("button.save")) {
      button.hidden = !views.has(button.dataset.chart);
      button.addEventListener("click", () => save(button.dataset.chart));
    }
    // Says that all is drawn, and how much.
    root.dataset.charts = String(views.size);
  }

  // A file outside the page has no variables: put in what they stand for.
  async function save(id) {
    const style = getComputedStyle(root);
    const svg = (await views.get(id).toSVG()).replace(/var\((--[a-z0-9-]+)\)/g,
      (_, name) => style.getPropertyValue(name).trim());
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    link.download = `${id}.svg`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function table() {
    const tests = document.getElementById("all-tests");
    if (!tests) return;
    const body = tests.tBodies[0];
    const rows = [...body.rows];
    const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const form = document.querySelector(".filters");
    const text = document.getElementById("filter-text");
    const count = document.getElementById("filter-count");
    const choices = ["operation", "status", "provenance"];
    form.hidden = false;

    function filter() {
      const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const fits = wanted.every((word) => words.get(row).includes(word)) && choices.every((name) => {
          const value = document.getElementById(`filter-${name}`).value;
          return !value || row.dataset[name] === value;
        });
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      }
      count.textContent = shown === rows.length ? `${shown} tests` : `${shown} of ${rows.length} tests`;
    }

    function key(cell) {
      const value = cell.dataset.value;
      if (value === undefined) return cell.textContent.trim();
      return value === "" ? null : Number(value);
    }

    // A cell without a value comes last in both directions.
    function compare(a, b, sign) {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    }

    function sort(head) {
      const upward = head.getAttribute("aria-sort") !== "ascending";
      for (const other of tests.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", upward ? "ascending" : "descending");
      const index = head.cellIndex;
      const order = [...body.rows].sort((a, b) => compare(key(a.cells[index]), key(b.cells[index]), upward ? 1 : -1));
      body.append(...order);
    }

    for (const head of tests.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(head));
      head.replaceChildren(button);
    }
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  table();
  draw();
})();
