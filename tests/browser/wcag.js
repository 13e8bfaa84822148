// What axe does not look at; test_accessibility.py puts it beside axe into every page. Each function returns complaints.
window.wcag = {
  /** 1.4.10: nothing makes the page scroll sideways. */
  overflow() {
    const root = document.documentElement;
    const beyond = root.scrollWidth - root.clientWidth;
    if (beyond <= 0) return [];
    const widest = [...document.body.querySelectorAll("*")].filter((element) => {
      const box = element.getBoundingClientRect();
      return box.width > 1 && box.right > root.clientWidth + 1;
    });
    return [`${beyond} px wider than the window: ${widest.slice(-3).map(wcag.name).join(", ")}`];
  },

  /** 2.4.7, 2.4.11: whatever takes focus shows it, and lies under nothing that sticks. A Tab came before. */
  focus() {
    const found = [];
    for (const element of document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")) {
      if (element.disabled || element.type === "hidden" || !element.checkVisibility({ visibilityProperty: true })) continue;
      element.blur();
      const before = wcag.drawn(element);
      element.focus();
      if (document.activeElement !== element) continue;
      if (wcag.drawn(element) === before) found.push(`no sign of focus on ${wcag.name(element)}`);
      const cover = wcag.coverOf(element);
      if (cover) found.push(`${wcag.name(element)} has focus under ${wcag.name(cover)}`);
    }
    document.activeElement?.blur();
    return found;
  },

  /** How it and what it stands in are outlined. A control may be drawn by its label. */
  drawn(element) {
    const around = [element, element.parentElement, element.nextElementSibling, element.closest("label")];
    return around
      .filter(Boolean)
      .map((each) => {
        const style = getComputedStyle(each);
        const outline = style.outlineStyle === "none" || parseFloat(style.outlineWidth) === 0 ? "" : style.outline;
        return `${outline} ${style.boxShadow}`;
      })
      .join("; ");
  },

  coverOf(element) {
    const box = element.getBoundingClientRect();
    if (box.width < 4 || box.height < 4) return null;
    const top = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height / 2, 12));
    const sticky = top?.closest(".oc-masthead, .oc-bottomnav, .oc-bulk, .oc-stick, .oc-decision, .oc-newbar, .oc-bar");
    return sticky && !sticky.contains(element) ? sticky : null;
  },

  /** 2.5.8 for thumbs: what a page is for is 44 px high. */
  thumbs() {
    return [...document.querySelectorAll(".oc-main :is(.pf-m-primary, .pf-m-danger, select, input:not([type=hidden], [type=checkbox], [type=radio])), .oc-cardpage__card .pf-m-primary")]
      .filter((element) => element.checkVisibility({ visibilityProperty: true }) && element.getBoundingClientRect().height < 43.5)
      .map((element) => `${wcag.name(element)} is ${Math.round(element.getBoundingClientRect().height)} px high`);
  },

  /** 1.4.12: with the reader's own spacing, no box cuts its text off. */
  spacing() {
    const cut = () => new Set([...document.querySelectorAll(".oc-page *, .oc-cardpage *")].filter(wcag.isCut));
    const before = cut();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important; } p { margin-block-end: 2em !important; }");
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const found = [...cut()].filter((element) => !before.has(element)).map((element) => `${wcag.name(element)} cuts its text`);
    found.push(...wcag.overflow());
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    return found;
  },

  isCut(element) {
    const style = getComputedStyle(element);
    if (!/hidden|clip/.test(style.overflow) || !element.textContent.trim() || element.closest("svg, .oc-sr")) return false;
    return element.scrollHeight > element.clientHeight + 1 || (element.scrollWidth > element.clientWidth + 1 && !element.title);
  },

  name(element) {
    const text = (element.getAttribute("aria-label") || element.innerText || element.name || "").trim().slice(0, 40);
    return `${element.localName}${element.id ? `#${element.id}` : ""}${element.classList.length ? `.${[...element.classList].join(".")}` : ""} “${text}”`;
  },
};
