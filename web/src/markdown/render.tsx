/**
 * Renders known tokens of the lexer as elements. There is no HTML string, so there is nothing to sanitize: a tag in the
 * text is a text node, and an unknown token is shown as its source.
 */

import type { Token, Tokens } from "marked";
import { type ComponentChildren, h, type VNode } from "preact";
import { say } from "../words/en/markdown.ts";
import { CodeBlock } from "./code_block.tsx";
import type { MarkdownContext } from "./context.ts";
import { decodeReferences } from "./entities.ts";
import { Note, Reference } from "./footnote.tsx";
import { Formula } from "./formula.tsx";
import type { FormulaToken, NoteToken, ReferenceToken } from "./lexer.ts";
import { anchor, Link } from "./link.tsx";
import { parsePath } from "./path.ts";
import { resolveTarget } from "./target.ts";
import { visibleOrder } from "./visible.ts";

/** Options of a render: `whole` is false for the block that still grows, `linked` is true within a link. */
export interface Drawing {
  readonly context: MarkdownContext;
  readonly whole: boolean;
  /** The prefix for the ids of the text's footnotes. */
  readonly notes: string;
  readonly linked?: boolean;
}

/** The page's own headings have the levels above. */
const HEADING_SHIFT = 2;
const HEADING_MAX = 6;

const LETTER = /\p{L}/u;
const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Samaritan}\p{Script=Mandaic}\p{Script=Adlam}]/u;

export function drawBlocks(tokens: readonly Token[], drawing: Drawing): ComponentChildren[] {
  return tokens.map((token) => drawBlock(token, drawing));
}

function drawBlock(token: Token, drawing: Drawing): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return h(
        `h${Math.min((token as Tokens.Heading).depth + HEADING_SHIFT, HEADING_MAX)}`,
        { dir: "auto" },
        drawInlines(token.tokens ?? [], drawing),
      );
    case "paragraph":
      return <p dir="auto">{drawInlines(token.tokens ?? [], drawing)}</p>;
    case "hr":
      return <hr />;
    case "blockquote":
      return (
        <blockquote dir={directionOf((token as Tokens.Blockquote).text)}>
          {drawBlocks(token.tokens ?? [], drawing)}
        </blockquote>
      );
    case "list":
      return drawList(token as Tokens.List, drawing);
    case "table":
      return drawTable(token as Tokens.Table, drawing);
    case "code": {
      const { text, lang } = token as Tokens.Code;
      return (
        <CodeBlock code={text.replace(/\n$/, "")} language={lang?.split(/\s/, 1)[0] ?? ""} whole={drawing.whole} />
      );
    }
    case "formula":
      return <div dir="ltr">{drawInline(token, drawing)}</div>;
    case "note": {
      const { name, first, tokens } = token as NoteToken;
      return (
        <Note name={name} first={first} prefix={drawing.notes}>
          {drawBlocks(tokens, drawing)}
        </Note>
      );
    }
    case "html":
      return (
        <p class="raw" dir="auto">
          {token.raw.trim()}
        </p>
      );
    default:
      return drawInline(token, drawing);
  }
}

function drawList(list: Tokens.List, drawing: Drawing): VNode {
  const items = list.items.map((item) => (
    <li class={item.task ? "task" : undefined}>{drawBlocks(item.tokens, drawing)}</li>
  ));
  const start = Number(list.start);
  const dir = directionOf(...list.items.map((item) => item.text));
  if (!list.ordered) return <ul dir={dir}>{items}</ul>;
  return (
    <ol dir={dir} start={Number.isSafeInteger(start) && start !== 1 ? start : undefined}>
      {items}
    </ol>
  );
}

/**
 * Return the direction of the first letter; undefined without any.
 *
 * It is for containers whose blocks have their own direction: `dir="auto"` does not look into those, so the marker of a
 * list or the line of a quote would be on the wrong side.
 */
function directionOf(...texts: readonly string[]): "rtl" | "ltr" | undefined {
  for (const text of texts) {
    const letter = LETTER.exec(text)?.[0];
    if (letter) return RIGHT_TO_LEFT.test(letter) ? "rtl" : "ltr";
  }
  return undefined;
}

export function drawTable(table: Tokens.Table, drawing: Drawing, more: ComponentChildren = null): VNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard
    <section class="grid" aria-label={say.table} tabIndex={0}>
      <table>
        <thead>
          <tr>{table.header.map((cell) => drawCell(cell, "th", drawing))}</tr>
        </thead>
        {drawRows(table, drawing)}
        {more}
      </table>
    </section>
  );
}

export function drawRows(table: Tokens.Table, drawing: Drawing): VNode | null {
  if (table.rows.length === 0) return null;
  return (
    <tbody>
      {table.rows.map((row) => (
        <tr>{row.map((cell) => drawCell(cell, "td", drawing))}</tr>
      ))}
    </tbody>
  );
}

function drawCell(cell: Tokens.TableCell, name: "th" | "td", drawing: Drawing): VNode {
  const align = cell.align === "right" ? "end" : cell.align === "center" ? "mid" : undefined;
  return h(name, { class: align, dir: "auto" }, drawInlines(cell.tokens, drawing));
}

function drawInlines(tokens: readonly Token[], drawing: Drawing): ComponentChildren[] {
  return tokens.map((token) => drawInline(token, drawing));
}

function drawInline(token: Token, drawing: Drawing): ComponentChildren {
  switch (token.type) {
    case "text":
      return token.tokens ? drawInlines(token.tokens, drawing) : decodeReferences((token as Tokens.Text).text);
    case "escape":
      return (token as Tokens.Escape).text;
    case "strong":
      return <strong>{drawInlines(token.tokens ?? [], drawing)}</strong>;
    case "em":
      return <em>{drawInlines(token.tokens ?? [], drawing)}</em>;
    case "del":
      return <del>{drawInlines(token.tokens ?? [], drawing)}</del>;
    case "codespan":
      return drawCode((token as Tokens.Codespan).text, drawing);
    case "formula": {
      const { raw, tex, display } = token as FormulaToken;
      return <Formula raw={raw} tex={tex} display={display} />;
    }
    case "reference":
      return <Reference name={(token as ReferenceToken).name} prefix={drawing.notes} />;
    case "br":
      return <br />;
    case "checkbox": {
      const { checked } = token as Tokens.Checkbox;
      return (
        <span class="box" role="img" aria-label={checked ? say.done : say.open}>
          {checked ? "☑ " : "☐ "}
        </span>
      );
    }
    case "link":
      return drawLink(token as Tokens.Link, drawing);
    case "image":
      return drawImage(token as Tokens.Image, drawing);
    default:
      return token.raw;
  }
}

const PICTURE = /\.(?:png|jpe?g|webp|gif|svg)$/i;

/**
 * A picture of the conversation. One of another site is a link, since loading it would reveal the view to that site.
 */
function drawImage({ href, title, tokens }: Tokens.Image, { context, linked = false }: Drawing): ComponentChildren {
  const words = textOf(tokens);
  const target = resolveTarget(href, context.conversation);
  const path = target.is === "path" && target.path.startsWith("fi:") && PICTURE.test(target.path) ? target.path : "";
  const picture = path && !linked && context.drawPicture?.(path, words || path.slice(path.lastIndexOf("/") + 1));
  return (
    picture || (
      <Link href={href} title={title} context={context}>
        {words || say.picture}
      </Link>
    )
  );
}

/** Return the text alone, as for a picture's description. */
function textOf(tokens: readonly Token[]): string {
  const texts = tokens.map((token) => {
    if ("tokens" in token && token.tokens) return textOf(token.tokens);
    return token.type === "text" ? decodeReferences(token.text) : ((token as Tokens.Text).text ?? token.raw);
  });
  return texts.join("");
}

/** Code that is the path of a file links to it: models name the files they wrote that way. */
function drawCode(text: string, { context, linked = false }: Drawing): VNode {
  const code = <code dir="ltr">{visibleOrder(text)}</code>;
  const path = !linked && text.startsWith("fi:") ? parsePath(text, context.conversation) : "";
  return path ? <a {...anchor({ is: "path", path }, context)}>{code}</a> : code;
}

function drawLink(link: Tokens.Link, drawing: Drawing): VNode {
  // An address in angle brackets is literal: its `&amp;` is five characters.
  const words = link.autolink ? link.text : drawInlines(link.tokens, { ...drawing, linked: true });
  return (
    <Link href={link.href} title={link.title} context={drawing.context}>
      {words}
    </Link>
  );
}
