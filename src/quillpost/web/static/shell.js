// What every page of somebody's has: a menu that closes, and times as the reader's own clock shows them.

const menu = document.querySelector("details.me");

document.addEventListener("click", (event) => {
  if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !menu.open) return;
  if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  menu.open = false;
});

// The area that one is in may be out of sight on a phone.
document.querySelector(".areas [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const known = document.cookie.match(/(?:^|; )quillpost_zone=([^;]*)/)?.[1];
const isRight = known === zone;

if (zone && !isRight) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `quillpost_zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
}

// From the next page on the service knows. This one was written in another zone's time.
const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

function putRight(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (time.dataset.moment !== undefined) time.textContent = (time.dataset.moment ? exact : short).format(at);
    if (time.title) time.title = `${exact.format(at)} (${zone})`;
  }
}

if (!isRight) putRight(document);

// A form's times are in the zone that its words name: all of it goes over to the reader's own, or nothing.
const clock = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

function shownIn(there, at) {
  const parts = new Intl.DateTimeFormat("en-GB", { ...clock, timeZone: there }).formatToParts(at);
  const { year, month, day, hour, minute } = Object.fromEntries(parts.map(({ type, value }) => [type, value]));
  return `${year}-${month}-${day}T${hour}:${minute}`;
}

function momentIn(there, shown) {
  const wanted = new Date(`${shown}Z`).getTime();
  const ahead = (at) => new Date(`${shownIn(there, at)}Z`) - at;
  return new Date(wanted - ahead(wanted - ahead(wanted)));
}

function zoneWords() {
  const parts = new Intl.DateTimeFormat("en-US", { timeZoneName: "short" }).formatToParts(new Date());
  const short = parts.find(({ type }) => type === "timeZoneName").value;
  const city = zone.split("/").at(-1).replaceAll("_", " ");
  if (zone === "UTC" || zone === "Etc/UTC") return "UTC";
  return /^[A-Z]+$/.test(short) ? `${city} time (${short})` : `${city} time`;
}

function moveOver(field) {
  for (const input of field.form.querySelectorAll("input[type=datetime-local]")) {
    for (const name of ["min", "max", "value"]) {
      if (input[name]) input[name] = shownIn(zone, momentIn(field.value, input[name].slice(0, 16)));
    }
  }
  for (const words of field.form.querySelectorAll("[data-zone-words]")) words.textContent = zoneWords();
  field.value = zone;
}

for (const field of document.querySelectorAll("input[data-zone]")) {
  if (zone && field.value !== zone) moveOver(field);
}
