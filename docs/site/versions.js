// Fills the chooser of versions from versions.json, which lies beside the folders of all versions.
"use strict";

document.addEventListener("DOMContentLoaded", async () => {
  const chooser = document.querySelector("#versions");
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const site = new URL("../", root);
  if (!chooser || location.protocol === "file:") return; // A page opened as a file may read no other.
  const read = fetch(new URL("versions.json", site)).then((answer) => (answer.ok ? answer.json() : []));
  const here = chooser.value;
  const names = new Set([here, ...(await read.catch(() => []))]); // Else this version alone.
  chooser.replaceChildren(...[...names].map((name) => new Option(name, name, name === here, name === here)));
  chooser.addEventListener("change", async () => {
    const version = new URL(`${chooser.value}/`, site);
    const same = new URL(location.pathname.slice(root.pathname.length) + location.search, version);
    const found = await fetch(same, { method: "HEAD" }).catch(() => null);
    location.href = found?.ok ? same : new URL("index.html", version); // That version may lack this page.
  });
});
