// Tables that can be sorted by a column and filtered by a word. Everything is on the page without this; it only adds ways to look.
"use strict";
(() => {
  const language = document.documentElement.lang;
  const collator = new Intl.Collator(language, { numeric: true, sensitivity: "base" });
  const sample = new Intl.NumberFormat(language).formatToParts(12345.6);
  const mark = name => (sample.find(part => part.type === name) || { value: "" }).value;
  const group = mark("group"), decimal = mark("decimal");
  const LONG = 12;
  const SCALES = { T: 1e12, B: 1e9, Bn: 1e12, Md: 1e9, "mld.": 1e9, "mil.": 1e6, G: 1e9, M: 1e6, K: 1e3, k: 1e3,
    TB: 1e12, GB: 1e9, MB: 1e6, To: 1e12, Go: 1e9, Mo: 1e6 };

  // The number that a text begins with, in the language's own writing, its unit taken in; null where it begins with none.
  const number = text => {
    const plain = text.trim().replaceAll(group, "").replace(/(\d)[\s\u00a0\u202f](?=\d{3})/g, "$1").replace(decimal, ".");
    const found = /^[^\d\u2212+-]{0,2}([\u2212+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)[\s\u00a0\u202f]*([A-Za-z.]*)/.exec(plain);
    return found ? Number(found[1].replace("\u2212", "-")) * (SCALES[found[2]] || 1) : null;
  };

  const compared = (one, other) => {
    const [first, second] = [number(one), number(other)];
    return first !== null && second !== null && first !== second ? first - second : collator.compare(one, other);
  };

  const sort = (table, column, down) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map(row => [row.cells[column].textContent.trim(), row]);
    const empty = rows.filter(([text]) => !text), told = rows.filter(([text]) => text);
    told.sort(([one], [other]) => compared(one, other) * (down ? -1 : 1));
    body.append(...[...told, ...empty].map(([, row]) => row));
  };

  const sortable = table => {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach(each => each.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      });
    });
  };

  const filterable = (table, frame) => {
    const label = document.createElement("label"), box = document.createElement("input"), count = document.createElement("output");
    const rows = [...table.tBodies[0].rows];
    label.className = "filter";
    box.type = "search";
    label.append(document.body.dataset.filter, " ", box, " ", count);
    box.setAttribute("aria-label", `${document.body.dataset.filter}: ${frame.getAttribute("aria-label")}`);
    box.addEventListener("input", () => {
      const words = box.value.toLocaleLowerCase(language).split(/\s+/).filter(word => word);
      rows.forEach(row => {
        const text = row.textContent.toLocaleLowerCase(language);
        row.hidden = !words.every(word => text.includes(word));
      });
      const shown = rows.filter(row => !row.hidden).length;
      count.textContent = words.length ? document.body.dataset.shown.replace("##", rows.length).replace("#", shown) : "";
    });
    frame.before(label);
  };

  document.querySelectorAll(".scroll").forEach(frame => {
    const table = frame.querySelector("table");
    if (table.tBodies[0].rows.length > 1) sortable(table);
    if (table.tBodies[0].rows.length > LONG) filterable(table, frame);
  });

  // A link to what is folded away unfolds it; on paper everything is unfolded.
  const unfold = () => {
    const there = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = there && there.closest("details");
    if (fold) { fold.open = true; there.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(each => { each.open = true; }));
})();
