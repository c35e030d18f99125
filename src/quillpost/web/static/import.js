// From a file to a list in two steps: which file, and what its columns are. How it went is a page of its own.

const page = document.querySelector("[data-api]");
const api = page.dataset.api;
const find = (selector) => page.querySelector(selector);
const trouble = find(".trouble");
const FIRST_BYTES = 1_000_000;

let held = null;  // a token of the reader's session, and until when it is good
let file = null;
const suppressing = new Set();  // the lists that keep people from being mailed to

function show(...ids) {
  for (const step of page.querySelectorAll(".step")) step.hidden = !ids.includes(step.id);
}

function complain(text) {
  for (const told of page.querySelectorAll(".fault")) told.remove();
  for (const field of page.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
  trouble.hidden = !text;
  trouble.textContent = text;
}

// Every answer that is no success has a message, and perhaps what is wrong by field.
class Refusal extends Error {
  constructor(faults, message) {
    super(message);
    this.faults = faults;
  }
}

function refusal(body, status) {
  return new Refusal(body?.errors ?? {}, body?.message ?? `The service answered ${status}.`);
}

// What is wrong stands at its field; what no field that is seen is for, above them all.
function tellFaults(faults, message) {
  const unplaced = Object.entries(faults).flatMap(([field, told]) => (tellAt(fieldOf(field), told.join(" ")) ? [] : told));
  if (unplaced.length || !Object.keys(faults).length) {
    trouble.hidden = false;
    trouble.textContent = unplaced.join("\n") || message;
  }
}

function fieldOf(name) {
  if (name.startsWith("mapping.")) return find(`[data-column="${CSS.escape(name.slice("mapping.".length))}"]`);
  const place = { file: "#file", description: "#name", mapping: "#columns" }[name];
  return place ? find(place) : null;
}

function tellAt(field, text) {
  if (!field || field.closest("[hidden]")) return false;
  const told = Object.assign(document.createElement("p"), { className: "fault", role: "alert", textContent: text });
  told.id = `${field.id || `column-${field.dataset.column}`}-fault`;
  field.after(told);
  if (!field.matches("input, select")) return true;
  field.ariaInvalid = "true";
  field.setAttribute("aria-describedby", told.id);
  field.focus();
  return true;
}

const SIGNED_OUT = "You are signed out. Load this page again, and sign in.";
const MARGIN = 60_000;

// Good for a quarter of an hour: fetched anew before it runs out, as a large file takes longer.
async function token() {
  if (held && Date.now() < held.until - MARGIN) return held.token;
  const { csrf, mode, membership } = page.dataset;
  const headers = { "X-CSRF-Token": csrf, Accept: "application/json" };
  const answer = await fetch("/session/token", { method: "POST", headers, body: new URLSearchParams({ mode, membership }) });
  const found = await answer.json().catch(() => null);
  if (answer.status === 401) throw new Error(SIGNED_OUT);
  if (!answer.ok) throw refusal(found, answer.status);
  held = { token: found.token, until: Date.now() + found.expires_in * 1000 };
  return held.token;
}

// A token ends with its session, and when another account is looked at: asking for the next one tells which.
async function whyEnded() {
  held = null;
  await token();
  throw new Error("The service did not know this page any more. Try again.");
}

async function call(method, path, body) {
  const isForm = body instanceof FormData;
  const headers = { Authorization: `Bearer ${await token()}`, Accept: "application/json" };
  if (body && !isForm) headers["Content-Type"] = "application/json";
  const answer = await fetch(api + path, { method, headers, body: isForm ? body : body && JSON.stringify(body) });
  const found = await answer.json().catch(() => null);
  if (answer.status === 401) await whyEnded();
  if (!answer.ok) throw refusal(found, answer.status);
  return found;
}

// What fails says why, and can be tried again.
async function attempt(work) {
  complain("");
  try {
    await work();
  } catch (fault) {
    if (fault instanceof Refusal) tellFaults(fault.faults, fault.message);
    else complain(fault instanceof TypeError ? "The service does not answer. Try again in a moment." : fault.message);
    return false;
  }
  return true;
}

function step(form, work) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    await attempt(work);
    button.disabled = false;
  });
}

function option(value, text) {
  return new Option(text, value);
}

const TITLES = {
  address: "Street address", address2: "Apartment or suite", province: "State or province",
  postal_code: "ZIP or postal code", email: "E-mail", dob: "Date of birth", full_address: "Whole address on one line",
};

function title(field) {
  const words = field.replaceAll("_", " ").replace(/(\d+)$/, " $1").replace("  ", " ");
  return TITLES[field] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

const STREETS = ["address", "full_address", "street_name"];

async function listsOf() {
  const found = [];
  for (let number = 1, last = 1; number <= last; number += 1) {
    const { data, meta } = await call("GET", `/mailing-lists?items_per_page=100&page=${number}`);
    found.push(...data);
    last = meta.last_page;
  }
  return found;
}

async function begin() {
  const lists = await listsOf();
  find("#list").replaceChildren(option("", "A new list"), ...lists.map((list) => option(list.id, named(list))));
  for (const list of lists) if (list.is_suppression_list) suppressing.add(`${list.id}`);
  if (page.dataset.list) find("#list").value = page.dataset.list;
  nameIt();
  show("what");
}
step(find("#who"), begin);

function named(list) {
  const what = list.is_suppression_list ? `${list.description}: nobody on it is mailed to` : list.description;
  return `${what} (${list.total_recipients.toLocaleString()})`;
}

function nameIt() {
  const isNew = !find("#list").value;
  find("#named").hidden = !isNew;
  find("#name").required = isNew;
}
find("#list").addEventListener("change", nameIt);

function nameAfterFile() {
  const [chosen] = find("#file").files;
  if (chosen && !find("#name").value) find("#name").value = chosen.name.replace(/\.[^.]+$/, "");
}
find("#file").addEventListener("change", nameAfterFile);
// A file may have been chosen while this script was on its way.
nameAfterFile();

step(find("#what"), async () => {
  [file] = find("#file").files;
  await look();
  show("how");
});

async function look(header) {
  const form = new FormData();
  if (header !== undefined) form.append("header", header);
  // The first rows tell; a workbook can only be read as a whole.
  const isText = !/\.xlsx$/i.test(file.name) && file.size > FIRST_BYTES;
  form.append("file", isText ? file.slice(0, FIRST_BYTES) : file, file.name);
  const looked = await call("POST", "/imports/preview", form);
  find("#how tbody").replaceChildren(...looked.columns.map((column, place) => row(column, place, looked)));
  find("#header").checked = looked.header;
  const warnings = (looked.warnings ?? []).map((told) => Object.assign(document.createElement("li"), { textContent: told }));
  find(".warnings").replaceChildren(...warnings);
  find(".warnings").hidden = !warnings.length;
  warnOfNoStreet();
}

find("#header").addEventListener("change", (event) => attempt(() => look(event.target.checked)));

// On a suppression list an e-mail is enough.
function warnOfNoStreet() {
  const isHere = Object.values(mapping()).some((field) => STREETS.includes(field));
  find("#no-street").hidden = isHere || suppressing.has(find("#list").value);
}
find("#columns").addEventListener("change", warnOfNoStreet);

find("#back").addEventListener("click", () => {
  complain("");
  show("what");
});

function row(column, place, looked) {
  const line = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  name.textContent = column.column;
  const samples = document.createElement("td");
  samples.textContent = looked.rows.map((cells) => cells[place]).filter(Boolean).slice(0, 3).join(" · ");
  const choice = document.createElement("select");
  choice.ariaLabel = `What ${column.column} is`;
  choice.dataset.column = place;
  choice.append(option("", "Left out"), ...looked.fields.map((field) => option(field, title(field))));
  choice.value = column.field;
  const cell = document.createElement("td");
  cell.append(choice);
  line.append(name, samples, cell);
  return line;
}

function mapping() {
  return Object.fromEntries([...page.querySelectorAll("[data-column]")].map((each) => [each.dataset.column, each.value]));
}

function requireSense() {
  const taken = new Set();
  const faults = {};
  for (const [place, field] of Object.entries(mapping()).filter(([, field]) => field)) {
    if (taken.has(field)) faults[`mapping.${place}`] = [`Another column is “${title(field)}” already.`];
    taken.add(field);
  }
  if (![...STREETS, "email"].some((field) => taken.has(field)))
    faults.mapping = ["Choose which column is the street, or at least the e-mail."];
  if (Object.keys(faults).length) throw new Refusal(faults);
}

async function listToFill() {
  const chosen = find("#list").value;
  if (chosen) return { id: chosen, isNew: false };
  const made = await call("POST", "/mailing-lists", { description: find("#name").value, type: "csv" });
  return { id: made.id, isNew: true };
}

// Not fetch: only this tells how much of a large file has left.
async function send(path, form, moved) {
  const bearer = `Bearer ${await token()}`;
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", api + path);
    request.setRequestHeader("Authorization", bearer);
    request.responseType = "json";
    request.upload.addEventListener("progress", moved);
    request.addEventListener("error", () => reject(new TypeError("unreachable")));
    request.addEventListener("load", () => {
      if (request.status === 202) resolve(request.response);
      else if (request.status === 401) whyEnded().catch(reject);
      else reject(refusal(request.response, request.status));
    });
    request.send(form);
  });
}

step(find("#how"), async () => {
  requireSense();
  const list = await listToFill();
  const form = new FormData();
  form.append("mapping", JSON.stringify(mapping()));
  form.append("header", find("#header").checked);
  form.append("file", file, file.name);
  tell(0);
  show("how", "progress");
  try {
    const begun = await send(`/mailing-lists/${list.id}/import`, form, (event) => tell(event.loaded / event.total));
    location.assign(`/lists/imports/${begun.id}`);
  } catch (fault) {
    show("how");
    if (list.isNew) await call("DELETE", `/mailing-lists/${list.id}`);  // nothing is left behind
    throw fault;
  }
});

function tell(share) {
  find("#progress [data-slot=told]").textContent = `${Math.floor(100 * share)}% of the file is sent`;
  find("progress").value = share;
}

if (!(await attempt(begin))) show("who");
