// @ts-check
// Checks in the browser that a leaf leads to the root on the page: the digests are folded here, from the siblings that the server
// gives, so the reader need not believe the server's word.

/**
 * @typedef {{ side: "left" | "right", hash: string }} Sibling
 * @typedef {{ leafDigestHex: string | null, proof?: Sibling[] }} Leaf
 */

const DOMAIN = "wilforlan:player-chain:node";

/** @param {string} left @param {string} right @returns {Promise<string>} */
async function node(left, right) {
  const text = new TextEncoder().encode(`${DOMAIN}\0${left}${right}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {Leaf} leaf @returns {Promise<string>} */
export async function fold(leaf) {
  let hash = leaf.leafDigestHex ?? "";
  for (const { side, hash: sibling } of leaf.proof ?? []) {
    hash = side === "left" ? await node(sibling, hash) : await node(hash, sibling);
  }
  return hash;
}

/** A button beside every link to a proof. */
export function startProofs() {
  const panel = document.querySelector("[data-proofs]");
  // Browsers give cryptography to secure pages alone: this machine, or HTTPS.
  if (!(panel instanceof HTMLElement) || !globalThis.crypto?.subtle) return;
  const root = panel.dataset.proofs;
  for (const link of panel.querySelectorAll("a[data-proof]")) {
    if (!(link instanceof HTMLAnchorElement)) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button small";
    button.textContent = "Check";
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        /** @type {Leaf} */
        const leaf = await (await fetch(link.href)).json();
        const isRoot = (await fold(leaf)) === root;
        button.textContent = isRoot ? "Proven" : "Does not match";
        button.classList.add(isRoot ? "good" : "bad");
      } catch {
        button.textContent = "No answer";
        button.disabled = false;
      }
    });
    link.before(button, " ");
  }
}
