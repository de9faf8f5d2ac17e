// Uses /docs as a newcomer would: types the API key, sends a transfer on each rail, reads it back.
//
//   node docs.mjs FOLDER_OF_JSDOM URL KEY
//
// jsdom runs the page's own script; every request goes to the server at URL.

import { createRequire } from "node:module";
import assert from "node:assert/strict";

const [folder, url, key] = process.argv.slice(2);
const { JSDOM, VirtualConsole } = createRequire(folder + "/")("jsdom");

const problems = [];
const virtualConsole = new VirtualConsole();
virtualConsole.on("jsdomError", (error) => problems.push(error.message));
const page = await (await fetch(url + "/docs")).text();
const { window } = new JSDOM(page, {
  url: url + "/docs",
  runScripts: "dangerously",
  virtualConsole,
  beforeParse: (window) => {
    window.matchMedia = () => ({ matches: false });
    window.fetch = (path, options) => fetch(new URL(path, url), options);
  },
});
const { document } = window;

async function until(what, seen) {
  for (let tries = 0; tries < 500; tries++) {
    const value = seen();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail(`no ${what}; ${problems}`);
}

const field = (id, name) => {
  const labels = [...document.querySelectorAll(`#${id} .fields label`)];
  return labels.find((label) => label.firstChild.textContent === name).querySelector("input");
};
const curl = (id) => document.querySelector(`#${id} .try > label:last-of-type pre`).textContent;
async function send(id) {
  document.querySelector(`#${id} button.go`).click();
  const result = document.querySelector(`#${id} .result`);
  return until(`answer to ${id}`, () => /^\d{3}/.test(result.textContent) && result.textContent);
}

const secret = await until("field for the API key", () => document.querySelector("nav input"));
secret.value = key;
secret.dispatchEvent(new window.Event("input"));

const rails = [
  ["submitTransfer", "X-Idempotency-Key", "readTransfer", "key"],
  ["moveBetweenServices", "Idempotency-Key", "readMove", "req_id"],
];
const keys = rails.map(([submit, header]) => field(submit, header).value);
assert.equal(new Set(keys).size, 2, "every rail has a fresh key of its own");
for (const [submit, , read, name] of rails) {
  assert.match(await send(submit), /^20[012]/);
  const answer = document.querySelector(`#${submit} .result pre`).textContent;
  const made = JSON.parse(answer)[name === "key" ? "transfer_id" : name];
  assert.equal(field(read, name).value, made, "the rail's form is filled with its last key");
  assert.ok(curl(read).includes(made) && curl(read).includes(`X-API-Key: ${key}`), curl(read));
}
// The other rail's transfer came last: each form still has its own.
for (const [, , read] of rails) assert.match(await send(read), /^200/);
assert.deepEqual(problems, []);
console.log("/docs fills in what it should");
window.close();
