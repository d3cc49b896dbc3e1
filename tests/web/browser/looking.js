/* What a person with weak eyes, a keyboard or a screen reader would stumble over on this page, as a list of sentences. */
() => {
  const found = [];
  for (const d of document.querySelectorAll("details")) d.open = true;
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = text; paint.fillRect(0, 0, 1, 1); const p = paint.getImageData(0, 0, 1, 1).data; return [p[0], p[1], p[2], p[3] / 255]; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (el) => { const layers = []; for (let e = el; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3]) layers.push(c); if (c[3] === 1) break; } return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); };
  const seen = (el) => el.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true }) && el.getClientRects().length && !el.closest(".sr, [hidden], option, datalist");
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const said = new Set();
  while (words.nextNode()) {
    const el = words.currentNode.parentElement, text = words.currentNode.data.trim();
    if (!text || !seen(el) || el.closest("script, style, svg.sr") || el.matches(":disabled, :disabled *")) continue;
    const style = getComputedStyle(el), below = ground(el);
    const ink = over(rgba(el.namespaceURI.endsWith("svg") ? style.fill : style.color), below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5, key = `${el.className.baseVal ?? el.className} ${style.color}`;
    if (ratio < least && !said.has(key)) { said.add(key); found.push(`contrast ${ratio.toFixed(2)} of "${text.slice(0, 30)}" (${el.tagName}.${key})`); }
  }
  const named = (el) => (el.getAttribute("aria-label") || el.labels?.[0]?.textContent || (el.getAttribute("aria-labelledby") && document.getElementById(el.getAttribute("aria-labelledby"))?.textContent) || el.textContent || el.title || "").trim();
  for (const el of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
    if (seen(el) && !named(el) && !el.placeholder) found.push(`no name: ${el.outerHTML.slice(0, 120)}`);
    const box = el.getBoundingClientRect();
    if (seen(el) && !el.matches("p a, td a, dd a, span a, th a, li a, .sub a, .hint a, input") && (box.height < 16)) found.push(`small: ${el.outerHTML.slice(0, 90)} ${box.width}x${box.height}`);
  }
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
    if (h.closest("dialog, [popover]:not(#side)")) continue;
    const n = +h.tagName[1];
    if (h.closest("nav")) continue;
    if (n > level + 1 && level) found.push(`heading jumps from h${level} to h${n}: ${h.textContent.slice(0, 40)}`);
    level = n;
  }
  for (const svg of document.querySelectorAll("svg[role=img]")) if (!svg.getAttribute("aria-label")) found.push("a picture without words");
  if (!document.querySelector("main")) found.push("no main");
  if (document.documentElement.lang !== "en") found.push("no language");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`id twice: ${id}`);
  if (document.scrollingElement.scrollWidth > innerWidth + 1) {
    const wide = [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll-x, .code, .log, .tabs, .graph, .card:has(> .tbl), .dlg-body")).slice(0, 3);
    found.push(`scrolls sideways: ${document.scrollingElement.scrollWidth} of ${innerWidth}: ${wide.map((e) => `${e.tagName}.${e.className}`).join(" | ")}`);
  }
  return found;
}
