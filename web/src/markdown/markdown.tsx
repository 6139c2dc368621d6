/** An untrusted Markdown text, which may grow. What has settled keeps its nodes, so a delta costs what its last block costs. */

import { Component, Fragment, type VNode } from "preact";
import { CodeBlock } from "./code_block.tsx";
import type { MarkdownContext } from "./context.ts";
import { type Block, MarkdownDocument } from "./document.ts";
import { LongTable } from "./long_table.tsx";
import { Plain } from "./plain.tsx";
import { drawBlocks } from "./render.tsx";
import "./markdown.css";

interface Props {
  readonly text: string;
  /** More of it may come: the last block is open, and a caret stands behind it. */
  readonly growing: boolean;
  readonly context: MarkdownContext;
}

type Rows = Block & { readonly is: "rows" };

export class Markdown extends Component<Props> {
  readonly #document = new MarkdownDocument();
  #drawn = new WeakMap<Block, VNode>();
  #context: MarkdownContext | null = null;

  override render({ text, growing, context }: Props): VNode {
    if (context !== this.#context) this.#drawn = new WeakMap();
    this.#context = context;
    const blocks = this.#document.update(text, growing);
    const nodes: VNode[] = [];
    for (let i = 0; i < blocks.length; i += 1) {
      const block = blocks[i] as Block;
      const rows: Rows[] = [];
      for (let next = blocks[i + 1]; next?.is === "rows"; next = blocks[i + rows.length + 1]) rows.push(next);
      nodes.push(rows.length > 0 ? this.#drawTable(i, block, rows, context) : this.#drawBlock(i, block, context));
      i += rows.length;
    }
    return <div class={growing ? "md growing" : "md"}>{nodes}</div>;
  }

  #drawBlock(key: number, block: Block, context: MarkdownContext): VNode {
    let node = this.#drawn.get(block);
    if (!node) {
      node = <Fragment key={key}>{drawWhole(block, context)}</Fragment>;
      this.#drawn.set(block, node);
    }
    return node;
  }

  #drawTable(key: number, block: Block, rows: readonly Rows[], context: MarkdownContext): VNode {
    const table = block.is === "tokens" ? block.tokens[0] : undefined;
    if (table?.type !== "table") return this.#drawBlock(key, block, context);
    return <LongTable key={key} document={this.#document} table={table} pages={rows} context={context} />;
  }
}

function drawWhole(block: Block, context: MarkdownContext) {
  if (block.is === "tokens") return drawBlocks(block.tokens, { context, whole: block.whole });
  if (block.is === "code") return <CodeBlock code={block.code} language={block.language} whole={block.whole} />;
  return block.is === "plain" ? <Plain text={block.text} /> : null;
}
