"use strict";
// The page draws one list: each row is a step, its last column a lane with the step's bar. Only the rows in view
// exist in the document, so a run of 100,000 steps costs what a screenful costs.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const rows = data.rows;
  const total = rows.kind.length;
  const OUTCOMES = ["ok", "failed", "cancelled", "unknown", "none"];
  const ROW = 30;
  const state = {
    language: data.language, theme: "auto", outcomes: new Set(), tool: "", layer: "", kind: "", search: "",
    order: "nested", from: 0, to: 0, follow: false, active: -1,
  };

  // ---- what the data says, computed once
  const outcomeOf = (i) => data.tables.outcome[rows.outcome[i]];
  const kindOf = (i) => data.tables.kind[rows.kind[i]];
  const toolOf = (i) => (rows.tool[i] < 0 ? "" : data.tables.tool[rows.tool[i]]);
  const layerOf = (i) => (rows.layer[i] < 0 ? "" : data.tables.layer[rows.layer[i]]);
  const detailsOf = (i) => data.tables.details[rows.details[i]];
  let end = 1;
  for (let i = 0; i < total; i++) {
    const last = rows.ended[i] ?? rows.began[i];
    if (last !== null && last > end) end = last;
  }
  for (const cut of data.cuts) if (cut.at > end) end = cut.at;
  end *= 1.02;
  // A deadline soon after the end is worth seeing; one that is far away would squeeze everything else.
  let reach = end;
  for (let i = 0; i < total; i++) {
    const at = rows.deadline[i];
    if (at !== null && at > reach && at <= end * 1.25) reach = at * 1.01;
  }
  end = reach;
  // A little room on the left, so that what begins with the run is not cut in half.
  const start = -end * 0.012;
  state.from = start;
  state.to = end;

  const recorded = Uint32Array.from({ length: total }, (_, i) => i);
  const depth = new Uint8Array(total);
  const nested = (() => {
    const children = new Map();
    const roots = [];
    for (let i = 0; i < total; i++) {
      const parent = rows.parent[i];
      if (parent < 0 || parent === i) roots.push(i);
      else if (children.has(parent)) children.get(parent).push(i);
      else children.set(parent, [i]);
    }
    const startOf = (i) => rows.began[i] ?? rows.ended[i] ?? Infinity;
    const byStart = (a, b) => {
      const x = startOf(a), y = startOf(b);
      return x === y ? a - b : x - y;
    };
    const order = new Uint32Array(total);
    let count = 0;
    roots.sort(byStart);
    const seen = new Uint8Array(total);
    const stack = roots.reverse();
    while (stack.length) {
      const i = stack.pop();
      if (seen[i]) continue;
      seen[i] = 1;
      order[count++] = i;
      const below = children.get(i);
      if (below) {
        below.sort(byStart).reverse();
        for (const child of below) {
          depth[child] = Math.min(depth[i] + 1, 250);
          stack.push(child);
        }
      }
    }
    // Whatever claims to be its own ancestor is listed all the same.
    for (let i = 0; i < total; i++) if (!seen[i]) order[count++] = i;
    return order;
  })();
  let visible = recorded;

  // ---- words and numbers
  const words = () => data.labels[state.language];
  const say = (key, fallback) => words()[key] ?? fallback ?? key;
  const format = (key, values) => say(key).replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const number = (value, digits = 0) =>
    new Intl.NumberFormat(state.language, { maximumFractionDigits: digits, minimumFractionDigits: 0 }).format(value);
  const kindWord = (kind) => say(`runs.detail.kind.${kind}`, kind);
  const duration = (exact) => {
    const ms = Math.abs(exact) < 1e-6 ? 0 : exact;
    if (ms < 1000) return `${number(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0)} ms`;
    if (ms < 60000) return `${number(ms / 1000, 2)} s`;
    if (ms < 3600000) return `${number(Math.floor(ms / 60000))} min ${number(Math.round((ms % 60000) / 1000))} s`;
    return `${number(ms / 3600000, 1)} h`;
  };
  const clock = (second) => {
    const date = new Date(second * 1000);
    return Number.isNaN(date.getTime()) ? String(second) : date.toISOString().slice(11, 19);
  };

  const element = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "class") node.className = value;
      else if (name === "style") node.style.cssText = value;
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };

  // ---- the lane
  const scale = (at) => ((at - state.from) / (state.to - state.from)) * 100;
  const within = (at) => at !== null && at >= state.from && at <= state.to;
  const ticks = () => {
    const span = state.to - state.from;
    const rough = span / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const marks = [];
    for (let at = Math.ceil(state.from / step) * step; at <= state.to && marks.length < 20; at += step) marks.push(at);
    return marks;
  };
  const laneOf = (i) => {
    const outcome = outcomeOf(i);
    const lane = element("div", { class: "lane", role: "gridcell", "aria-hidden": "true" });
    for (const at of marks) lane.append(element("i", { class: "grid", style: `left:${scale(at)}%` }));
    for (const cut of data.cuts) if (within(cut.at)) lane.append(element("i", { class: "cut", style: `left:${scale(cut.at)}%` }));
    const began = rows.began[i], ended = outcome === "unknown" ? end : rows.ended[i];
    if (began !== null && ended !== null && ended > began) {
      const left = Math.max(0, scale(began)), right = Math.min(100, scale(ended));
      if (right > 0 && left < 100 && right >= left) {
        lane.append(element("i", { class: "bar", "data-outcome": outcome, style: `left:${left}%;width:${right - left}%` }));
      }
    } else {
      const at = ended ?? began;
      if (within(at)) lane.append(element("i", { class: "dot", "data-outcome": outcome, style: `left:${scale(at)}%` }));
    }
    if (within(rows.deadline[i])) lane.append(element("i", { class: "deadline", style: `left:${scale(rows.deadline[i])}%` }));
    return lane;
  };

  // ---- the list
  let marks = [];
  const drawn = new Map();
  const row = (position) => {
    const i = visible[position];
    const outcome = outcomeOf(i);
    const level = state.order === "nested" ? depth[i] : 0;
    const tool = toolOf(i);
    const line = element("div", {
      class: level ? "line nested" : "line", role: "row", id: `row-${i}`, "aria-rowindex": position + 2,
      "aria-selected": i === state.active ? "true" : "false", style: `top:${position * ROW}px`,
    });
    const cell = (name, ...children) => element("div", { class: name, role: "gridcell" }, ...children);
    const sequence = rows.sequence[i];
    line.append(
      cell("number sequence", sequence < 0 ? "" : String(sequence)),
      cell("time", clock(rows.second[i])),
      cell("kind", kindWord(kindOf(i))),
      element("div", { class: "tool", role: "gridcell", title: tool, style: `padding-left:${0.6 + Math.min(level, 12) * 1}rem` },
        level ? element("span", { class: "nest", "aria-hidden": "true" }, "└") : null,
        tool || element("span", { class: "stand-in", "aria-hidden": "true" }, kindWord(kindOf(i)))),
      cell("outcome", outcome === "none" ? "" : element("span", { class: "badge", "data-outcome": outcome }, say(`runs.detail.outcome.${outcome}`))),
      cell("number round", rows.round[i] > 0 ? number(rows.round[i]) : ""),
      cell("number ms", rows.ms[i] > 0 ? number(rows.ms[i], 2) : ""),
      laneOf(i),
    );
    return line;
  };
  const draw = (afresh) => {
    if (afresh) {
      drawn.clear();
      $("rows").replaceChildren();
    }
    const list = $("list");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 10);
    const last = Math.min(visible.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 10);
    if (state.follow && follow(first, last)) {
      drawn.clear();
      $("rows").replaceChildren();
    }
    for (const [position, node] of drawn) {
      if (position < first || position >= last) {
        node.remove();
        drawn.delete(position);
      }
    }
    const fresh = document.createDocumentFragment();
    for (let position = first; position < last; position++) {
      if (!drawn.has(position)) {
        const node = row(position);
        drawn.set(position, node);
        fresh.append(node);
      }
    }
    $("rows").append(fresh);
  };
  // In a long run the rows in view are a sliver of it: the lanes then show the time that these rows span.
  const follow = (first, last) => {
    let from = Infinity, to = -Infinity;
    for (let position = first; position < last; position++) {
      const i = visible[position];
      const a = rows.began[i] ?? rows.ended[i], b = rows.ended[i] ?? a;
      if (a !== null && a < from) from = a;
      if (b !== null && b > to) to = b;
    }
    if (from > to) return false;
    const room = Math.max((to - from) * 0.04, end / 20000);
    from = Math.max(start, from - room);
    to = Math.min(end, to + room);
    if (from === state.from && to === state.to) return false;
    state.from = from;
    state.to = to;
    drawHead();
    drawOverview();
    return true;
  };
  const drawHead = () => {
    marks = ticks();
    const head = $("head");
    const names = [["sequence", true], ["time"], ["kind"], ["tool"], ["outcome"], ["round", true], ["milliseconds", true]];
    head.replaceChildren(...names.map(([name, right]) =>
      element("div", { class: `${right ? "number " : ""}${name === "milliseconds" ? "ms" : name}`, role: "columnheader" }, say(`runs.detail.${name}`))));
    const lane = element("div", { class: "lane", role: "columnheader", "aria-label": say("runs.detail.lanes") });
    for (const at of marks) if (scale(at) < 96) lane.append(element("span", { class: "axis", style: `left:${scale(at)}%` }, duration(at)));
    for (const cut of data.cuts) {
      if (!within(cut.at)) continue;
      const text = cut.cause ? `${say("runs.legend.cancelled")} · ${cut.cause}` : say("runs.legend.requested");
      const left = scale(cut.at);
      lane.append(element("span", { class: "flag", title: `${text} · ${duration(cut.at)}`, style: left > 70 ? `right:${100 - left}%` : `left:${left}%` }, text));
    }
    head.append(lane);
  };

  // ---- the overview
  const BINS = 240;
  const part = (at) => (at - start) / (end - start);
  const bins = OUTCOMES.map(() => new Float64Array(BINS));
  for (let i = 0; i < total; i++) {
    const outcome = outcomeOf(i);
    const which = OUTCOMES.indexOf(outcome);
    const to = outcome === "unknown" ? end : rows.ended[i] ?? rows.began[i];
    if (to === null) continue;
    const from = rows.began[i] ?? to;
    const a = Math.max(0, Math.floor(part(from) * BINS)), b = Math.min(BINS - 1, Math.floor(part(to) * BINS));
    for (let bin = a; bin <= b; bin++) bins[which][bin]++;
  }
  const drawOverview = () => {
    const canvas = $("density");
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    let most = 1;
    for (let bin = 0; bin < BINS; bin++) most = Math.max(most, bins.reduce((sum, counts) => sum + counts[bin], 0));
    const step = width / BINS;
    const order = ["ok", "failed", "cancelled", "unknown", "none"];
    const colours = Object.fromEntries(order.map((name) => [name, probe(name)]));
    for (let bin = 0; bin < BINS; bin++) {
      let y = height - 6;
      for (const name of order) {
        const size = (bins[OUTCOMES.indexOf(name)][bin] / most) * (height - 14);
        if (!size) continue;
        pen.fillStyle = colours[name];
        pen.globalAlpha = name === "none" ? 0.45 : 0.9;
        const left = Math.floor(bin * step);
        pen.fillRect(left, y - Math.max(size, 1), Math.floor((bin + 1) * step) - left, Math.max(size, 1));
        y -= size;
      }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.cancelled;
    pen.setLineDash([4, 3]);
    pen.lineWidth = 1.5;
    for (const cut of data.cuts) {
      pen.beginPath();
      pen.moveTo(part(cut.at) * width, 0);
      pen.lineTo(part(cut.at) * width, height);
      pen.stroke();
    }
    const zoomed = state.from > start || state.to < end;
    const frame = $("window");
    frame.hidden = !zoomed;
    frame.style.left = `${part(state.from) * 100}%`;
    frame.style.width = `${(part(state.to) - part(state.from)) * 100}%`;
    $("zoom-out").disabled = $("zoom-fit").disabled = !zoomed;
  };
  const probe = (name) => getComputedStyle(document.querySelector(`.tile[data-outcome="${name}"] .mark`), "::before").color;
  const zoom = (from, to) => {
    setFollow(false);
    const least = end / 5000;
    if (to - from < least) {
      const middle = (from + to) / 2;
      from = middle - least / 2;
      to = middle + least / 2;
    }
    state.from = Math.max(start, from);
    state.to = Math.min(end, to);
    drawHead();
    drawOverview();
    draw(true);
  };
  const setFollow = (on) => {
    state.follow = on;
    $("follow").setAttribute("aria-pressed", on ? "true" : "false");
  };
  const zoomBy = (factor) => {
    const middle = (state.from + state.to) / 2, half = ((state.to - state.from) / 2) * factor;
    zoom(middle - half, middle + half);
  };

  // ---- the panel
  const fact = (list, term, text) => {
    if (text === null || text === undefined || text === "") return;
    list.append(element("dt", {}, term), element("dd", {}, text));
  };
  const drawPanel = () => {
    const panel = $("panel");
    panel.hidden = state.active < 0;
    if (state.active < 0) return;
    const i = state.active;
    const outcome = outcomeOf(i);
    const close = element("button", { class: "plain", type: "button" }, say("runs.panel.close"));
    close.addEventListener("click", () => activate(-1, true));
    const sequence = rows.sequence[i];
    panel.replaceChildren(element("div", { class: "top" },
      element("h2", {}, toolOf(i) || kindWord(kindOf(i)),
        element("span", { class: "of" }, [kindWord(kindOf(i)), sequence < 0 ? "" : `${say("runs.detail.sequence")} ${sequence}`].filter(Boolean).join(" · "))), close));
    if (outcome !== "none") panel.append(element("p", {}, element("span", { class: "badge", "data-outcome": outcome }, say(`runs.detail.outcome.${outcome}`))));
    if (outcome === "unknown") panel.append(element("p", {}, say("runs.unknown.hint")));
    const where = element("dl");
    const effect = rows.effect[i] < 0 ? "" : data.tables.effect[rows.effect[i]];
    fact(where, say("runs.detail.time"), `${clock(rows.second[i])} UTC`);
    fact(where, say("runs.detail.round"), rows.round[i] > 0 ? number(rows.round[i]) : "");
    fact(where, say("runs.detail.layer"), layerOf(i));
    fact(where, say("runs.detail.effect"), effect && say(`runs.detail.effect.${effect}`, effect));
    fact(where, say("runs.panel.call"), rows.call[i]);
    const parent = rows.parent[i];
    fact(where, say("runs.panel.parent"), parent < 0 ? "" : toolOf(parent));
    fact(where, say("runs.panel.began"), rows.began[i] === null ? "" : duration(rows.began[i]));
    fact(where, say("runs.panel.settled"), rows.ended[i] === null ? "" : duration(rows.ended[i]));
    fact(where, say("runs.panel.deadline"), rows.deadline[i] === null ? "" : duration(rows.deadline[i]));
    if (where.children.length) panel.append(where);
    const details = detailsOf(i);
    if (details.length) {
      const list = element("dl");
      for (const [key, text] of details) fact(list, key, text === "" ? "\u00a0" : text);
      panel.append(element("hr"), list);
    } else panel.append(element("p", {}, say("runs.panel.nothing")));
  };
  const activate = (i, focus) => {
    const before = $(`row-${state.active}`);
    if (before) before.setAttribute("aria-selected", "false");
    state.active = i;
    const node = $(`row-${i}`);
    if (node) node.setAttribute("aria-selected", "true");
    if (i < 0) $("list").removeAttribute("aria-activedescendant");
    else $("list").setAttribute("aria-activedescendant", `row-${i}`);
    drawPanel();
    if (focus) $("list").focus();
  };
  const reveal = (position) => {
    const list = $("list");
    const top = position * ROW, height = list.clientHeight - ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + height) list.scrollTop = top + ROW - height;
    draw(false);
  };

  // ---- filters
  const apply = () => {
    const order = state.order === "nested" ? nested : recorded;
    const tool = data.tables.tool.indexOf(state.tool), layer = data.tables.layer.indexOf(state.layer), kind = data.tables.kind.indexOf(state.kind);
    const wanted = state.outcomes.size ? new Set([...state.outcomes].map((name) => data.tables.outcome.indexOf(name))) : null;
    const search = state.search.toLowerCase();
    const matches = search ? data.tables.details.map((pairs) => pairs.some(([key, text]) => `${key}=${text}`.toLowerCase().includes(search))) : null;
    const named = search ? data.tables.tool.map((name) => name.toLowerCase().includes(search)) : null;
    if (!wanted && !search && !state.tool && !state.layer && !state.kind) visible = order;
    else {
      visible = order.filter((i) =>
        (!wanted || wanted.has(rows.outcome[i])) &&
        (!state.tool || rows.tool[i] === tool) &&
        (!state.layer || rows.layer[i] === layer) &&
        (!state.kind || rows.kind[i] === kind) &&
        (!search || matches[rows.details[i]] || (rows.tool[i] >= 0 && named[rows.tool[i]])));
    }
    $("sizer").style.height = `${visible.length * ROW}px`;
    $("sizer").hidden = visible.length === 0;
    $("nothing").hidden = visible.length > 0;
    $("list").setAttribute("aria-rowcount", visible.length + 1);
    $("shown").textContent = format("runs.filter.shown", { shown: number(visible.length), total: number(total) });
    for (const tile of document.querySelectorAll("button.tile")) {
      tile.setAttribute("aria-pressed", state.outcomes.has(tile.dataset.outcome));
    }
    draw(true);
    remember();
  };
  const remember = () => {
    const parts = new URLSearchParams();
    if (state.outcomes.size || data.outcome) parts.set("outcome", [...state.outcomes].join(","));
    for (const name of ["tool", "layer", "kind", "search"]) if (state[name]) parts.set(name, state[name]);
    if (state.order !== "nested") parts.set("order", state.order);
    if (state.language !== data.language) parts.set("language", state.language);
    if (state.theme !== "auto") parts.set("theme", state.theme);
    const hash = parts.toString();
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch { /* a page without an address keeps no memory */ }
  };
  const recall = () => {
    const parts = new URLSearchParams(location.hash.slice(1));
    // An address that says nothing of it opens with the filter that the page was written with.
    for (const name of (parts.get("outcome") ?? data.outcome ?? "").split(",")) if (OUTCOMES.includes(name)) state.outcomes.add(name);
    for (const name of ["tool", "layer", "kind", "search"]) state[name] = parts.get(name) ?? "";
    if (parts.get("order") === "recorded") state.order = "recorded";
    if (parts.get("language") in data.labels) state.language = parts.get("language");
    if (["light", "dark"].includes(parts.get("theme"))) state.theme = parts.get("theme");
  };

  // ---- the frame around it
  const choice = (id, options, current, choose) => {
    $(id).replaceChildren(...options.map(([value, text, lang]) => {
      const button = element("button", { type: "button", "aria-pressed": value === current() ? "true" : "false", lang, "data-value": value }, text);
      button.addEventListener("click", () => {
        choose(value);
        for (const other of $(id).children) other.setAttribute("aria-pressed", other.dataset.value === current() ? "true" : "false");
      });
      return button;
    }));
  };
  const options = (id, values, word) => {
    const select = $(id);
    select.replaceChildren(element("option", { value: "" }, say("runs.filter.all")), ...values.map((value) => element("option", { value }, word(value))));
    select.value = state[id];
  };
  const legend = () => {
    const key = (text, ...marks) => element("span", {}, element("i", { class: "key", "aria-hidden": "true" }, ...marks), text);
    const bar = (name) => key(say(`runs.detail.outcome.${name}`), element("i", { class: "bar", "data-outcome": name }));
    $("legend").replaceChildren(
      ...["ok", "failed", "cancelled", "unknown"].map(bar),
      key(say("runs.legend.never"), element("i", { class: "dot", "data-outcome": "cancelled" })),
      key(say("runs.legend.deadline"), element("i", { class: "deadline" })),
      key(say("runs.legend.cancelled"), element("i", { class: "cut" })),
      element("span", { class: "end", id: "keys" }, say("runs.keys")),
    );
  };
  const write = () => {
    document.documentElement.lang = state.language;
    document.title = format("runs.title", { run: data.run.id });
    $("title").textContent = document.title;
    const when = (second) => `${new Intl.DateTimeFormat(state.language, { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" }).format(new Date(second * 1000))} UTC`;
    const parts = [];
    if (Number.isFinite(data.run.started) && Math.abs(data.run.started) < 8e12) parts.push(`${say("runs.started")} ${when(data.run.started)}`);
    parts.push(`${say("runs.duration")} ${duration(end / 1.02)}`, say(data.run.state));
    $("subtitle").textContent = parts.join(" · ");
    for (const node of document.querySelectorAll("[data-text]")) node.textContent = say(node.dataset.text);
    for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", say(node.dataset.label));
    for (const node of document.querySelectorAll("[data-title]")) node.title = say(node.dataset.title);
    $("search").placeholder = say("runs.filter.search");
    $("search").setAttribute("aria-label", say("runs.filter.search"));
    for (const tile of document.querySelectorAll(".tile[data-outcome]")) {
      const name = tile.dataset.outcome;
      tile.querySelector(".word").textContent = say(`runs.detail.outcome.${name}`);
      tile.querySelector(".number").textContent = number(data.counts[name]);
    }
    const rate = $("rate");
    rate.title = say("runs.failureRate.hint");
    rate.querySelector(".word").textContent = say("runs.failureRate");
    rate.querySelector(".number").textContent = data.failureRate === null ? "–" : `${number(data.failureRate * 100, 1)} %`;
    options("tool", data.tables.tool, (name) => name);
    options("layer", data.tables.layer, (name) => name);
    options("kind", data.tables.kind, kindWord);
    choice("theme", ["auto", "light", "dark"].map((name) => [name, say(`runs.theme.${name}`)]), () => state.theme, (theme) => {
      state.theme = theme;
      dress();
      drawOverview();
      remember();
    });
    choice("order", ["nested", "recorded"].map((name) => [name, say(`runs.order.${name}`)]), () => state.order, (order) => {
      state.order = order;
      $("list").scrollTop = 0;
      apply();
    });
    choice("language", Object.keys(data.labels).map((name) => [name, data.languages[name], name]), () => state.language, (language) => {
      state.language = language;
      write();
    });
    legend();
    drawHead();
    drawPanel();
    apply();
  };
  const dress = () => {
    if (state.theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = state.theme;
  };

  // ---- what people do
  for (const tile of document.querySelectorAll("button.tile")) {
    tile.addEventListener("click", () => {
      const name = tile.dataset.outcome;
      if (!state.outcomes.delete(name)) state.outcomes.add(name);
      $("list").scrollTop = 0;
      apply();
    });
  }
  for (const id of ["tool", "layer", "kind", "search"]) {
    $(id).addEventListener("input", () => {
      state[id] = $(id).value;
      $("list").scrollTop = 0;
      apply();
    });
  }
  $("tools").addEventListener("submit", (event) => event.preventDefault());
  $("tools").addEventListener("reset", (event) => {
    event.preventDefault();
    Object.assign(state, { tool: "", layer: "", kind: "", search: "" });
    state.outcomes.clear();
    for (const id of ["tool", "layer", "kind", "search"]) $(id).value = "";
    zoom(start, end);
    setFollow(total > 300);
    apply();
  });
  $("list").addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
  $("rows").addEventListener("click", (event) => {
    const line = event.target.closest(".line");
    if (line) activate(Number(line.id.slice(4)), false);
  });
  $("list").addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor($("list").clientHeight / ROW) - 2);
    const at = visible.indexOf(state.active);
    const to = {
      ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: visible.length - 1,
    }[event.key];
    if (to !== undefined && visible.length) {
      const position = Math.min(visible.length - 1, Math.max(0, to));
      reveal(position);
      activate(visible[position], false);
    } else if (event.key === "Enter" && state.active >= 0) $("panel").focus();
    else if (event.key === "Escape" && state.active >= 0) activate(-1, false);
    else return;
    event.preventDefault();
  });
  $("panel").addEventListener("keydown", (event) => {
    if (event.key === "Escape") activate(-1, true);
  });
  $("zoom-in").addEventListener("click", () => zoomBy(0.5));
  $("zoom-out").addEventListener("click", () => zoomBy(2));
  $("zoom-fit").addEventListener("click", () => zoom(start, end));
  $("follow").addEventListener("click", () => {
    if (state.follow) zoom(start, end);
    else {
      setFollow(true);
      draw(true);
    }
  });
  const canvas = $("density");
  canvas.addEventListener("pointerdown", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (moved) => start + Math.min(1, Math.max(0, (moved.clientX - box.left) / box.width)) * (end - start);
    const held = at(event);
    canvas.setPointerCapture(event.pointerId);
    const move = (moved) => {
      const now = at(moved);
      if (Math.abs(now - held) > end / 300) zoom(Math.min(held, now), Math.max(held, now));
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", () => canvas.removeEventListener("pointermove", move), { once: true });
  });
  canvas.addEventListener("dblclick", () => zoom(start, end));
  new ResizeObserver(() => {
    drawOverview();
    draw(false);
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);

  recall();
  dress();
  setFollow(total > 300);
  write();
  drawOverview();
  // For those who measure: milliseconds from navigation to a page that answers.
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
