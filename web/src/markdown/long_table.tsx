/**
 * A table of more than 200 rows: the first of them, and all on request. Each part is a separate body and keeps its
 * nodes.
 */

import type { Token, Tokens } from "marked";
import { Component, type VNode } from "preact";
import { say } from "../words/en/markdown.ts";
import type { MarkdownContext } from "./context.ts";
import type { Block, MarkdownDocument } from "./document.ts";
import { type Drawing, drawRows, drawTable } from "./render.tsx";

type Rows = Block & { readonly is: "rows" };

interface Props {
  readonly document: MarkdownDocument;
  readonly table: Token;
  readonly pages: readonly Rows[];
  readonly context: MarkdownContext;
  readonly notes: string;
}

interface PageProps {
  readonly document: MarkdownDocument;
  readonly page: Rows;
  readonly context: MarkdownContext;
  readonly notes: string;
}

class Page extends Component<PageProps> {
  override shouldComponentUpdate(next: PageProps): boolean {
    return next.page !== this.props.page || next.context !== this.props.context;
  }

  override render({ document, page, context, notes }: PageProps) {
    const table = document.readRows(page);
    return table && drawRows(table, { context, notes, whole: true });
  }
}

export class LongTable extends Component<Props, { all: boolean }> {
  override state = { all: false };

  override render({ document, table, pages, context, notes }: Props): VNode {
    const drawing: Drawing = { context, notes, whole: true };
    const first = table as Tokens.Table;
    const count = pages.reduce((sum, page) => sum + page.count, first.rows.length);
    const more =
      this.state.all &&
      pages.map((page, i) => <Page key={i} document={document} page={page} context={context} notes={notes} />);
    return (
      <div class="cut">
        {drawTable(first, drawing, more)}
        {!this.state.all && (
          <button type="button" onClick={() => this.setState({ all: true })}>
            {say.allRows(count)}
          </button>
        )}
      </div>
    );
  }
}
