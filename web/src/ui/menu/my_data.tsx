/** Exports or deletes all stored data of a user. */

import { useState } from "preact/hooks";
import { shell } from "../../words/en/shell.ts";
import { wordsOf } from "../../words/index.ts";
import type { Page } from "../store/page.ts";
import { saveFile } from "./export.ts";

const { menu: words } = shell;
const FILE = "stepline-export.jsonl";

/** The part of the API that an export uses. */
export interface ExportApi {
  exportMe(query: { readonly after?: string }): Promise<{ readonly next: string }>;
}

/**
 * Return all data of a user as JSON, one page a line; `onPages` receives the number of pages so far. Throws as the API
 * does.
 */
export async function exportAll(api: ExportApi, onPages: (pages: number) => void): Promise<string> {
  const lines: string[] = [];
  let after = "";
  do {
    const page = await api.exportMe(after ? { after } : {});
    lines.push(`${JSON.stringify(page)}\n`);
    onPages(lines.length);
    after = page.next;
  } while (after);
  return lines.join("");
}

export function MyData({ page, close }: { page: Page; close: () => void }) {
  const [said, setSaid] = useState("");
  const save = async () => {
    setSaid(words.exporting);
    try {
      saveFile(FILE, "application/jsonl", await exportAll(page.api, (pages) => setSaid(words.exported(pages))));
      setSaid("");
    } catch (error) {
      setSaid(wordsOf((error as { code?: string }).code ?? "", words.exportFailed("")));
    }
  };
  return (
    <>
      <button type="button" onClick={() => void save()}>
        {words.exportAll}
      </button>
      {said && <p role="status">{said}</p>}
      <button
        type="button"
        class="danger"
        onClick={() => {
          close();
          page.askToErase();
        }}
      >
        {words.eraseAll}
      </button>
    </>
  );
}
