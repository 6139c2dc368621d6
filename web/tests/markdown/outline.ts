/**
 * A rendered text and the HTML of a specification in one form: elements by name, text with normalized whitespace.
 *
 * Intended differences are left out: links are their words, pictures their descriptions, and headings are two levels
 * lower.
 */

const LEVELS: Readonly<Record<string, string>> = { H1: "H3", H2: "H4", H3: "H5", H4: "H6", H5: "H6", H6: "H6" };

/** Return the outline of the elements that `draw` created. */
export function outlineDrawn(root: Node): string {
  return join(root, drawn);
}

/** Return the outline of an example's HTML. */
export function outlineExpected(html: string): string {
  const root = document.createElement("div");
  root.innerHTML = html;
  return join(root, expected);
}

type Rule = (element: Element, inner: () => string) => string;

const drawn: Rule = (element, inner) => {
  const name = element.nodeName;
  if (name === "BUTTON" || element.className === "language") return "";
  if (name === "PRE") return outlineCode(Array.from(element.children, (line) => line.textContent).join("\n"));
  if (element.className === "dead") {
    const address = element.querySelector(":scope > code:last-child"); // it leads nowhere
    address?.previousSibling?.remove();
    address?.remove();
  }
  return ["A", "SPAN", "SECTION", "DIV"].includes(name) ? inner() : wrap(name, inner());
};

const expected: Rule = (element, inner) => {
  const name = LEVELS[element.nodeName] ?? element.nodeName;
  if (name === "INPUT") return element.hasAttribute("checked") ? "☑" : "☐";
  if (name === "IMG") return element.getAttribute("alt") || "picture";
  if (name === "PRE") return outlineCode(element.textContent ?? "");
  return ["A", "DIV"].includes(name) ? inner() : wrap(name, inner());
};

function outlineCode(code: string): string {
  const lines = code.replace(/\n$/, "").split("\n");
  return wrap(
    "PRE",
    lines
      .map((line) => line.replaceAll(" ", "·").trim())
      .join("⏎")
      .replaceAll(/·+(?=⏎|$)/g, ""),
  );
}

function wrap(name: string, inner: string): string {
  return name === "BR" || name === "HR" ? `<${name}>` : `<${name}>${inner}</${name}>`;
}

function visit(node: Node, rule: Rule): string {
  if (node.nodeType === Node.TEXT_NODE) return node.textContent ?? "";
  const inner = () => Array.from(node.childNodes, (child) => visit(child, rule)).join("");
  return node.nodeType === Node.ELEMENT_NODE ? rule(node as Element, inner) : "";
}

function join(root: Node, rule: Rule): string {
  const text = Array.from(root.childNodes, (child) => visit(child, rule)).join("");
  return text
    .replace(/[ \t\n]+/g, " ")
    .replace(/ ?(<\/?(?:P|PRE|LI|UL|OL|BLOCKQUOTE|HR|BR|H[3-6]|TABLE|THEAD|TBODY|TR|TH|TD)>) ?/g, "$1")
    .trim();
}
