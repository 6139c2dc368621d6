/** TeX as MathML elements, from the known parts of Temml's tree. Its markup and its inline styles are never created. */

import { type ComponentChildren, h } from "preact";
import temml from "temml";

/** Macros of an author could grow without limit. */
const DEFINES = /\\(?:[egx]?def|let|futurelet|global|long|(?:re)?newcommand|providecommand)(?![A-Za-z])/;
const NODES_MAX = 4_000;
const DEPTH_MAX = 60;
const SIZE_MAX_EM = 20;
const EXPANSIONS_MAX = 400;

const ELEMENTS = new Set(
  "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  "accent accentunder columnspan depth display displaystyle fence form height largeop linethickness lspace mathvariant maxsize minsize movablelimits notation rowspan rspace scriptlevel separator stretchy symmetric voffset width".split(
    " ",
  ),
);
/** A word, or a length below a hundred. */
const VALUE = /^(?:[a-z]{1,20}(?: [a-z]{1,20})*|-?\d{0,2}(?:\.\d{1,6})?(?:em|ex|pt|px|mu|%)?)$/;
const CLASSES: Readonly<Record<string, string>> = { "tml-left": "lhs", "tml-right": "rhs" };
/** Lines of a table, which Temml draws with styles. */
const LINES = [
  ["borderTop", "over"],
  ["borderBottom", "under"],
  ["borderLeft", "before"],
  ["borderRight", "behind"],
] as const;

interface TemmlNode {
  readonly type?: string;
  readonly text?: string;
  readonly children?: readonly TemmlNode[];
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly classes?: readonly string[];
  readonly style?: Readonly<Record<string, unknown>>;
}

/** Return the elements of a formula; null if it is invalid, or too large. */
export function readMath(tex: string, display: boolean): ComponentChildren | null {
  if (DEFINES.test(tex)) return null;
  const maxSize: [number, number] = [SIZE_MAX_EM, SIZE_MAX_EM];
  try {
    const tree = temml.__renderToMathMLTree(tex, {
      displayMode: display,
      throwOnError: true,
      maxSize,
      maxExpand: EXPANSIONS_MAX,
    });
    return new Drawing().draw(tree);
  } catch {
    return null;
  }
}

class Drawing {
  #nodes = 0;

  /** Throws for a tree that is too large. */
  draw(node: TemmlNode, depth = 0): ComponentChildren {
    this.#nodes += 1;
    if (this.#nodes > NODES_MAX || depth > DEPTH_MAX) throw new RangeError("too large");
    if (node.text !== undefined) return node.text;
    const children = (node.children ?? []).map((child) => this.draw(child, depth + 1));
    // A fragment, and spans that only carry a style.
    if (!node.type || !ELEMENTS.has(node.type)) return children;
    return h(node.type, attributesOf(node), ...children);
  }
}

function attributesOf({ attributes = {}, classes = [], style = {} }: TemmlNode): Record<string, string> {
  const kept = Object.entries(attributes).flatMap(([name, value]) =>
    ATTRIBUTES.has(name) && VALUE.test(String(value)) ? [[name, String(value)]] : [],
  );
  const names = [
    ...classes.flatMap((name) => CLASSES[name] ?? []),
    ...LINES.flatMap(([line, name]) => (style[line] ? name : [])),
  ];
  return { ...Object.fromEntries(kept), ...(names.length > 0 && { class: names.join(" ") }) };
}
