// A pad to sign on: its strokes go with the form around it, unless a picture was chosen.
const pad = document.querySelector(".signature-pad");
const form = pad.closest("form");
const clear = form.querySelector("[data-clear]");
const pen = pad.getContext("2d");
const PEN_WIDTH = 7;
const MIN_STEP = 3;
let strokes = [];
let current = null;

Object.assign(pen, { lineWidth: PEN_WIDTH, lineCap: "round", lineJoin: "round" });

const point = (event) => {
  const box = pad.getBoundingClientRect();
  return [((event.clientX - box.left) * pad.width) / box.width, ((event.clientY - box.top) * pad.height) / box.height];
};

function store() {
  form.drawnFields = strokes.length ? { strokes, pen_width: PEN_WIDTH } : null;
  clear.hidden = !strokes.length;
}

pad.addEventListener("pointerdown", (event) => {
  event.preventDefault();
  pad.setPointerCapture(event.pointerId);
  current = [point(event)];
  strokes.push(current);
  pen.strokeStyle = getComputedStyle(pad).color;
  pen.beginPath();
  pen.moveTo(...current[0]);
  pen.lineTo(...current[0]);
  pen.stroke();
});

pad.addEventListener("pointermove", (event) => {
  if (!current) return;
  const next = point(event);
  const last = current.at(-1);
  if (Math.hypot(next[0] - last[0], next[1] - last[1]) < MIN_STEP) return;
  current.push(next.map((value) => Math.round(value * 10) / 10));
  pen.beginPath();
  pen.moveTo(...last);
  pen.lineTo(...next);
  pen.stroke();
});

for (const name of ["pointerup", "pointercancel"]) {
  pad.addEventListener(name, () => {
    current = null;
    store();
  });
}

clear.addEventListener("click", () => {
  strokes = [];
  pen.clearRect(0, 0, pad.width, pad.height);
  store();
});
