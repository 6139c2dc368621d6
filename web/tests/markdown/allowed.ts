/** The elements and attributes that a rendered text may have. */

const MATH =
  "accent accentunder class columnspan depth display displaystyle fence form height largeop linethickness lspace mathvariant maxsize minsize movablelimits rowspan rspace scriptlevel separator stretchy symmetric voffset width".split(
    " ",
  );

const ELEMENTS: Readonly<Record<string, readonly string[]>> = {
  a: ["href", "title", "target", "rel", "class", "aria-label", "aria-describedby"],
  b: [],
  blockquote: ["dir"],
  br: [],
  button: ["type", "class", "aria-live", "aria-label", "aria-describedby"],
  code: ["dir"],
  del: [],
  div: ["class", "dir", "id", "tabindex"],
  em: [],
  h3: ["dir"],
  h4: ["dir"],
  h5: ["dir"],
  h6: ["dir"],
  hr: [],
  i: [],
  li: ["class"],
  ol: ["dir", "start"],
  p: ["class", "dir"],
  pre: ["class", "dir"],
  section: ["class", "aria-label", "tabindex"],
  span: ["class", "role", "aria-label", "data-line"],
  strong: [],
  sup: [],
  table: [],
  tbody: [],
  td: ["class", "dir"],
  th: ["class", "dir"],
  thead: [],
  tr: [],
  u: [],
  ul: ["dir"],
  bdi: [],
  ...Object.fromEntries(
    "math mfrac mi mn mo mover mpadded mphantom mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover"
      .split(" ")
      .map((name) => [name, MATH]),
  ),
};

const CLASSES = new Set(
  "md growing cite dead raw cut grid end mid task box code copy lines source unlined language formula wide lhs rhs footnote".split(
    " ",
  ),
);
const HREF = /^(?:https?:\/\/[^\s"'<>]+|mailto:[^\s"'<>]+|\/c\/chat-1\/f\/[^\s"'<>?#]+|#note-\d+-[a-z\d-]+)$/;

/** Return the elements and attributes of the tree that are not allowed, one a line. */
export function findForbidden(root: Element): string[] {
  const found: string[] = [];
  for (const element of root.querySelectorAll("*")) {
    const name = element.localName;
    const attributes = Object.hasOwn(ELEMENTS, name) ? ELEMENTS[name] : undefined;
    if (!attributes) found.push(`<${name}>`);
    for (const { name: attribute, value } of Array.from(element.attributes)) {
      if (!attributes?.includes(attribute)) found.push(`<${name} ${attribute}="${value}">`);
      if (attribute === "href" && !HREF.test(value)) found.push(`href ${value}`);
      if (attribute === "data-line" && !/^\d+$/.test(value)) found.push(`line ${value}`);
      if (attribute === "class" && !value.split(" ").every((one) => CLASSES.has(one))) found.push(`class ${value}`);
    }
    if (name === "a" && element.getAttribute("target") === "_blank") {
      if (element.getAttribute("rel") !== "noopener noreferrer nofollow ugc") found.push(`rel of ${element.outerHTML}`);
    }
  }
  return found;
}
