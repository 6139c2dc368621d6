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
  picture: "picture",
  source: (number: number) => `Source ${number}`,
  allRows: (count: number) => `Show all ${formatNumber(count)} rows`,
  allText: (bytes: number) => `Show all ${formatBytes(bytes)}`,
};
