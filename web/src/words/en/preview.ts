/** Words of previews. */

import { formatNumber } from "../format.ts";

export const say = {
  preview: (name: string) => `Preview of ${name}`,
  close: "Close",
  download: "Download",
  source: "Source",
  shown: "Preview",
  loading: "Loading",
  again: "Try again",
  growing: "being written",
  cutOff: "cut off",
  failed: "The file could not be loaded.",
  broken: "The picture could not be shown.",
  tooLarge: "Too large to show here.",
  unknown: "This kind of file has no preview.",
  tab: "Open the PDF in a new tab",
  empty: "The file is empty.",
  html: "HTML preview, without scripts or network access",
  allRows: (count: number) => `Show all ${formatNumber(count)} rows`,
  moreColumns: (count: number) => `${formatNumber(count)} more ${count === 1 ? "column" : "columns"}`,
  bundle: (name: string) => `Page of ${name}`,
};
