/** Decides how to show a file, by its type and name. A type that is not on the list is offered as a download. */

import { isPicture } from "../thread/files.ts";

export type Kind =
  | { readonly is: "text"; readonly language: string }
  | { readonly is: "markdown" }
  | { readonly is: "csv" }
  | { readonly is: "html" }
  | { readonly is: "image"; readonly mime: string }
  | { readonly is: "pdf" }
  | { readonly is: "unknown" };

const BY_MIME: Readonly<Record<string, Kind>> = {
  "text/markdown": { is: "markdown" },
  "text/csv": { is: "csv" },
  "text/tab-separated-values": { is: "csv" },
  "text/html": { is: "html" },
  "application/xhtml+xml": { is: "html" },
  "application/pdf": { is: "pdf" },
  "application/json": { is: "text", language: "json" },
  "application/xml": { is: "text", language: "xml" },
  "application/yaml": { is: "text", language: "yaml" },
  "application/x-yaml": { is: "text", language: "yaml" },
  "application/javascript": { is: "text", language: "javascript" },
  "application/sql": { is: "text", language: "sql" },
  "application/toml": { is: "text", language: "" },
  "application/x-sh": { is: "text", language: "bash" },
};

const BY_ENDING: Readonly<Record<string, Kind>> = {
  md: { is: "markdown" },
  markdown: { is: "markdown" },
  csv: { is: "csv" },
  tsv: { is: "csv" },
  html: { is: "html" },
  htm: { is: "html" },
  svg: { is: "image", mime: "image/svg+xml" },
};

/** File extensions, with the language of the text. */
const LANGUAGES: Readonly<Record<string, string>> = {
  py: "python",
  js: "javascript",
  mjs: "javascript",
  ts: "typescript",
  tsx: "typescript",
  jsx: "javascript",
  json: "json",
  sh: "bash",
  sql: "sql",
  css: "css",
  xml: "xml",
  yaml: "yaml",
  yml: "yaml",
};

/** Return how to show a file. Its type decides; the name only refines the kind of a text. */
export function kindOf(mime: string, filename: string): Kind {
  const type = (mime.split(";", 1)[0] ?? "").trim().toLowerCase();
  const dot = filename.lastIndexOf(".");
  const ending = dot < 0 ? "" : filename.slice(dot + 1).toLowerCase();
  if (isPicture(type)) return { is: "image", mime: type };
  if (Object.hasOwn(BY_MIME, type)) return BY_MIME[type] ?? { is: "unknown" };
  const byEnding = Object.hasOwn(BY_ENDING, ending) ? BY_ENDING[ending] : undefined;
  const language = Object.hasOwn(LANGUAGES, ending) ? (LANGUAGES[ending] ?? "") : "";
  if (type.startsWith("text/")) return byEnding ?? { is: "text", language };
  if (type === "" || type === "application/octet-stream") {
    return byEnding ?? (language || ending === "txt" ? { is: "text", language } : { is: "unknown" });
  }
  return { is: "unknown" };
}
