/**
 * An untrusted Markdown text, which may grow. Settled blocks keep their nodes, so a delta costs only as much as its
 * last block.
 */

import { Component, type VNode } from "preact";
import { CodeBlock } from "./code_block.tsx";
import type { MarkdownContext } from "./context.ts";
import { type Block, MarkdownDocument } from "./document.ts";
import { LongTable } from "./long_table.tsx";
import { Plain } from "./plain.tsx";
import { drawBlocks } from "./render.tsx";
import "./markdown.css";

interface Props {
  readonly text: string;
  /** The text may grow: the last block is open, and a caret follows it. */
  readonly growing: boolean;
  readonly context: MarkdownContext;
}

type Rows = Block & { readonly is: "rows" };

/** The number of rendered texts: each prefixes its footnotes with its number. */
let texts = 0;

/** One element: a block, or a table with its further pages. */
interface Part {
  readonly block: Block;
  readonly pages: readonly Rows[];
}

/** Parts that are compared as one while others grow. */
const CHUNK_PARTS = 16;

export class Markdown extends Component<Props> {
  readonly #document = new MarkdownDocument();
  readonly #notes = `note-${++texts}-`;

  override render({ text, growing, context }: Props): VNode {
    const parts = partsOf(this.#document.update(text, growing));
    const chunks: VNode[] = [];
    for (let i = 0; i < parts.length; i += CHUNK_PARTS) {
      const own = parts.slice(i, i + CHUNK_PARTS);
      chunks.push(<Chunk key={i} document={this.#document} parts={own} context={context} notes={this.#notes} />);
    }
    return <div class={growing ? "md growing" : "md"}>{chunks}</div>;
  }
}

function partsOf(blocks: readonly Block[]): Part[] {
  const parts: Part[] = [];
  for (let i = 0; i < blocks.length; i += 1) {
    const block = blocks[i] as Block;
    const pages: Rows[] = [];
    for (let next = blocks[i + 1]; next?.is === "rows"; next = blocks[i + pages.length + 1]) pages.push(next);
    parts.push({ block, pages });
    i += pages.length;
  }
  return parts;
}

interface ChunkProps {
  readonly document: MarkdownDocument;
  readonly parts: readonly Part[];
  readonly context: MarkdownContext;
  readonly notes: string;
}

class Chunk extends Component<ChunkProps> {
  override shouldComponentUpdate({ parts, context }: ChunkProps): boolean {
    const before = this.props.parts;
    return (
      context !== this.props.context ||
      parts.length !== before.length ||
      parts.some((part, i) => part.pages.length > 0 || part.block !== before[i]?.block || before[i].pages.length > 0)
    );
  }

  override render({ document, parts, context, notes }: ChunkProps) {
    return parts.map(({ block, pages }, i) => {
      const table = pages.length > 0 && block.is === "tokens" ? block.tokens[0] : undefined;
      return table?.type === "table" ? (
        <LongTable key={i} document={document} table={table} pages={pages} context={context} notes={notes} />
      ) : (
        <Drawn key={i} block={block} context={context} notes={notes} />
      );
    });
  }
}

interface DrawnProps {
  readonly block: Block;
  readonly context: MarkdownContext;
  readonly notes: string;
}

/**
 * One block, rendered again only for a new object. We do not store its nodes: a node holds the whole tree of its first
 * render.
 */
class Drawn extends Component<DrawnProps> {
  override shouldComponentUpdate(next: DrawnProps): boolean {
    return next.block !== this.props.block || next.context !== this.props.context;
  }

  override render({ block, context, notes }: DrawnProps) {
    return drawWhole(block, context, notes);
  }
}

function drawWhole(block: Block, context: MarkdownContext, notes: string) {
  if (block.is === "tokens") return drawBlocks(block.tokens, { context, notes, whole: block.whole });
  if (block.is === "code") return <CodeBlock code={block.code} language={block.language} whole={block.whole} />;
  return block.is === "plain" ? <Plain text={block.text} /> : null;
}
