// What only a browser can do for a form: times in the reader's zone, the fields that a choice has, a file of one's own.

export function forms() {
  for (const field of document.querySelectorAll("input[data-utc]")) inOwnZone(field);
  for (const form of document.querySelectorAll("form:has([data-only-for])")) byChoice(form);
  const text = document.getElementById("field-text");
  if (text) fromFile(text);
}

// The server is sent UTC; the reader sees both.
function inOwnZone(field) {
  const utc = document.createElement("input");
  utc.type = "hidden";
  utc.name = field.name;
  utc.value = field.value;
  field.removeAttribute("name");
  const said = document.createElement("p");
  said.className = "quiet hint";
  said.setAttribute("role", "status");
  field.after(utc, said);
  const zone = field.closest(".field").querySelector("[data-zone]");
  zone.textContent = `(${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
  const minutes = (date) => date.toISOString().slice(0, 16);
  const say = () => (said.textContent = utc.value ? `${utc.value.replace("T", " ")} UTC` : "");
  const given = new Date(utc.value.replace(/Z?$/, "Z"));
  if (!isNaN(given)) field.value = minutes(new Date(given - given.getTimezoneOffset() * 60000));
  field.addEventListener("input", () => {
    const date = new Date(field.value);
    utc.value = isNaN(date) ? "" : minutes(date);
    say();
  });
  say();
}

function byChoice(form) {
  const choice = form.querySelector("select");
  const show = () => {
    for (const field of form.querySelectorAll("[data-only-for]")) field.hidden = !field.dataset.onlyFor.split(" ").includes(choice.value);
  };
  choice.addEventListener("change", show);
  show();
}

// Nothing is sent until the form is: the text can be read and changed first.
function fromFile(text) {
  const label = document.createElement("label");
  label.className = "file";
  label.textContent = "From a file ";
  const file = document.createElement("input");
  file.type = "file";
  file.accept = ".toml,text/plain";
  file.addEventListener("change", async () => (text.value = (await file.files[0]?.text()) ?? text.value));
  label.append(file);
  text.before(label);
}
