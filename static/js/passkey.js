// Passkeys: a form with data-passkey="create" or "get" asks the browser, and sends what it gave in its field "credential".
// The options are in the page, or at data-options. Without passkeys in the browser the form stays hidden.
const form = document.querySelector("form[data-passkey]");
const said = form?.querySelector("[data-passkey-error]");
const REFUSED = "The browser gave no passkey. Try again, or use another way.";

async function options() {
  if (!form.dataset.options) return JSON.parse(document.querySelector("#passkey-options").textContent);
  const answer = await fetch(form.dataset.options, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

async function create({ creation_options: { publicKey } }) {
  const alone = form.elements.passwordless?.checked ?? true;
  publicKey.authenticatorSelection.residentKey = alone ? "required" : "discouraged";
  publicKey.authenticatorSelection.requireResidentKey = alone;
  if (alone) publicKey.authenticatorSelection.userVerification = "required";
  return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey) });
}

async function get({ request_options: { publicKey } }) {
  return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey) });
}

async function ask(event) {
  event.preventDefault();
  said.hidden = true;
  try {
    const credential = await (form.dataset.passkey === "create" ? create : get)(await options());
    form.elements.credential.value = JSON.stringify(credential.toJSON());
    form.submit();
  } catch {
    said.textContent = REFUSED;
    said.hidden = false;
  }
}

if (form && window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
  form.hidden = false;
  form.addEventListener("submit", ask);
}
