/** Words of rendered text. */

import { formatBytes, formatNumber } from "../format.ts";

export const say = {
  copy: "Copy",
  copied: "Copied",
  copyFailed: "Not copied",
  done: "done",
  open: "to do",
  code: (language: string) => (language ? `Code, ${language}` : "Code"),
  table: "Table",
  formula: "Formula",
  footnote: (name: string) => `Footnote ${name}`,
  back: (name: string) => `Back to footnote ${name} in the text`,
  picture: "picture",
  source: (number: number) => `Source ${number}`,
  allRows: (count: number) => `Show all ${formatNumber(count)} rows`,
  allText: (bytes: number) => `Show all ${formatBytes(bytes)}`,
};
