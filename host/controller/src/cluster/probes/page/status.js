// Writes times as people say them, and refreshes the page where somebody wants that. The page needs none of it.
"use strict";

const STEPS = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
const PAUSE = 2000;

function sayTimes() {
  const words = new Intl.RelativeTimeFormat("en", { numeric: "always" });
  for (const element of document.querySelectorAll("time[datetime]")) {
    const seconds = Math.round((Date.parse(element.dateTime) - Date.now()) / 1000);
    const [size, unit] = STEPS.find(([size]) => Math.abs(seconds) >= size) ?? [1, "second"];
    element.title = element.dateTime;
    element.textContent = Math.abs(seconds) < 1 ? "now" : words.format(Math.trunc(seconds / size), unit);
  }
}

async function refresh() {
  const answer = await fetch(location.href, { cache: "no-store" });
  if (!answer.ok) throw new Error(answer.statusText);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(old.id);
    // What somebody has focused or selected stays as it is.
    const held = old.contains(document.activeElement) || (getSelection().toString() && old.contains(getSelection().anchorNode));
    if (now && !held && now.innerHTML !== old.dataset.was) {
      old.dataset.was = now.innerHTML;
      old.replaceChildren(...now.childNodes);
    }
  }
  sayTimes();
}

function offerRefresh() {
  const label = document.createElement("label");
  const box = document.createElement("input");
  const state = document.createElement("span");
  box.type = "checkbox";
  box.id = "live";
  state.textContent = "refresh";
  label.append(box, state);
  document.getElementById("refresh").append(label);
  let timer;
  const step = async () => {
    try {
      await refresh();
      state.textContent = "refresh";
    } catch {
      state.textContent = "no answer";
    }
    if (box.checked) timer = setTimeout(step, PAUSE);
  };
  box.addEventListener("change", () => (box.checked ? step() : clearTimeout(timer)));
}

sayTimes();
offerRefresh();
